#include "engine/media/frame_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kExtension = ".png";
constexpr size_t kDigits = 6, kIdLength = 32;

bool LiesBeside(absl::string_view name) {
  if (absl::StartsWith(name, ".") || absl::EndsWith(name, ".part")) return true;
  return name.size() > kIdLength && name[kIdLength] == '.' &&
         std::all_of(name.begin(), name.begin() + kIdLength, absl::ascii_isxdigit);
}

absl::Status CannotList(const std::string& folder, const std::error_code& error) {
  return absl::InternalError(absl::StrCat(folder, ": cannot be listed: ", error.message()));
}

}  // namespace

std::string FrameName(int64_t index) { return absl::StrFormat("%06d.png", index); }

bool IsFrameName(std::string_view name) {
  if (name.size() < kDigits + kExtension.size() || !absl::EndsWith({name.data(), name.size()}, kExtension)) {
    return false;
  }
  const size_t digits = name.size() - kExtension.size();
  return (digits == kDigits || name[0] != '0') &&
         std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(digits), absl::ascii_isdigit);
}

absl::Status CheckFrameFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();  // creating it will report an error, if any
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (IsFrameName(name) || LiesBeside(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": holds ", name, ", which is not a frame; use a new or empty folder"));
  }
  return error ? CannotList(folder, error) : absl::OkStatus();
}

absl::Status RemoveFrames(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> old;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (IsFrameName(at->path().filename().string())) old.push_back(at->path());
  }
  if (error) return CannotList(folder, error);
  for (const fs::path& frame : old) {
    fs::remove(frame, error);
    if (error) {
      return absl::InternalError(
          absl::StrCat(frame.string(), ": of an older clip, cannot be removed: ", error.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace kinora
