#include "server/worker/preview_maps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/media/output_file.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestDigits = 64;  // hexadecimal SHA-256 of the floats, at the beginning of a file
constexpr size_t kMostFiles = 64;

}  // namespace

PreviewMaps::PreviewMaps(std::string folder) : folder_(folder.empty() ? "" : std::move(folder) + "/previews") {}

std::string PreviewMaps::Key(const google::protobuf::Map<std::string, std::string>& digests,
                             const std::string& precision) {
  std::string of = absl::StrCat("latent to rgb 1\n", precision, "\n");  // 1: version of the fit
  for (const auto& [name, digest] : std::map<std::string, std::string>(digests.begin(), digests.end())) {
    if (!absl::StartsWith(name, "lora/")) absl::StrAppend(&of, name, " ", digest, "\n");
  }
  return Sha256Hex(of);
}

std::string PreviewMaps::PathOf(const std::string& key) const { return absl::StrCat(folder_, "/", key); }

std::optional<LatentToRgb> PreviewMaps::Find(const std::string& key, int64_t channels) const {
  if (folder_.empty()) return std::nullopt;
  LatentToRgb map{.matrix = std::vector<float>(3 * (channels + 1))};
  const size_t bytes = map.matrix.size() * sizeof(float);
  std::ifstream file(PathOf(key), std::ios::binary);
  std::string text(kDigestDigits + bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (static_cast<size_t>(file.gcount()) != text.size() - 1) return std::nullopt;
  text.pop_back();
  const std::string floats = text.substr(kDigestDigits);
  if (text.substr(0, kDigestDigits) != Sha256Hex(floats)) return std::nullopt;
  std::memcpy(map.matrix.data(), floats.data(), bytes);
  const bool finite = std::all_of(map.matrix.begin(), map.matrix.end(), [](float f) { return std::isfinite(f); });
  return finite ? std::optional(std::move(map)) : std::nullopt;
}

void PreviewMaps::Keep(const std::string& key, const LatentToRgb& map) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  const std::string floats(reinterpret_cast<const char*>(map.matrix.data()), map.matrix.size() * sizeof(float));
  const auto file = OutputFile::Create(PathOf(key));
  if (!file.ok() || !(*file)->Write(absl::StrCat(Sha256Hex(floats), floats)).ok()) return;
  if ((*file)->Commit().ok()) RemoveOldest();
}

void PreviewMaps::RemoveOldest() const {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    files.emplace_back(at->last_write_time(error), at->path());
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + kMostFiles < files.size(); ++i) fs::remove(files[i].second, error);
}

}  // namespace kinora
