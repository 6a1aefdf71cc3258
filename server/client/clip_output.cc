#include "server/client/clip_output.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "engine/media/frame_folder.h"
#include "engine/media/zip_reader.h"
#include "server/request/output_container.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWords[] = {"{seed}", "{id}", "{n}"};

bool HoldsWord(const std::string& text) {
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* word) { return absl::StrContains(text, word); });
}

// Returns only the file name, so that the server cannot choose a path or folder.
std::string FileName(const std::string& text) {
  const std::string name = fs::path(text).filename();
  return name == "." || name == ".." ? "_" : name;
}

absl::Status MakeFolder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);  // an existing folder is not an error
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("--output: the folder ", folder.string(), " cannot be made: ", error.message()));
}

absl::Status CheckFolder(const std::string& folder) {
  const absl::Status status = CheckFrameFolder(folder);
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat("--output ", std::string(status.message())));
}

absl::Status StoreFrame(const fs::path& folder, std::string_view name, std::string_view png) {
  KINORA_ASSIGN_OR_RETURN(const auto frame, OutputFile::Create(folder / name));
  KINORA_RETURN_IF_ERROR(frame->Write(png));
  return frame->Commit();
}

}  // namespace

ClipOutput::ClipOutput(std::string path) : path_(std::move(path)), varies_(HoldsWord(path_)) {}

absl::StatusOr<ClipOutput> ClipOutput::At(std::optional<std::string> output) {
  if (output.has_value() && output->empty()) return absl::InvalidArgumentError("--output: is empty");
  return ClipOutput(output.value_or(""));
}

bool ClipOutput::IsFolder() const {
  std::error_code not_seen;  // reported when the path is opened
  return !path_.empty() && (absl::EndsWith(path_, "/") || fs::is_directory(path_, not_seen));
}

absl::Status ClipOutput::ChooseContainer(v1::Output& request) const {
  if (path_.empty() || to_standard_output()) return absl::OkStatus();
  const auto container = ContainerForPath(path_);
  if (!container.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--output ", std::string(container.status().message())));
  }
  if (!CheckContainer(request, *container).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output ", path_, ": selects ", v1::Output::Container_Name(ToProto(*container)),
                     ", but --container is ", v1::Output::Container_Name(request.container())));
  }
  request.set_container(ToProto(*container));
  return absl::OkStatus();
}

absl::Status ClipOutput::Open() {
  if (to_standard_output()) return absl::OkStatus();
  if (IsFolder() && !varies_) KINORA_RETURN_IF_ERROR(CheckFolder(path_));
  KINORA_ASSIGN_OR_RETURN(begun_, Begin());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OutputFile>> ClipOutput::Begin() {
  if (begun_ != nullptr) return std::move(begun_);
  const fs::path path(path_);
  if (!varies_ && !IsFolder() && !path_.empty()) {
    KINORA_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
    return OutputFile::Create(path_);
  }
  // The name depends on the job: creates the file in the deepest folder that does not.
  fs::path folder;
  const fs::path asked = IsFolder() ? path : path.parent_path();
  for (const fs::path& part : asked) {
    if (HoldsWord(part)) break;
    folder /= part;
  }
  KINORA_RETURN_IF_ERROR(MakeFolder(folder));
  return OutputFile::Create(folder / "kinora");
}

std::string ClipOutput::Expand(const v1::Video& video, int n) const {
  return absl::StrReplaceAll(
      path_,
      {{"{seed}", absl::StrCat(video.effective().seed())}, {"{id}", FileName(video.id())}, {"{n}", absl::StrCat(n)}});
}

std::string ClipOutput::PathFor(const v1::Video& video, const v1::Artifact& artifact, int n) const {
  const std::string extension = fs::path(FileName(artifact.file_name())).extension();
  std::string own = absl::StrCat(FileName(video.id()), extension);
  if (path_.empty()) return own;
  const std::string path = Expand(video, n);
  return IsFolder() && extension != ".zip" ? (fs::path(path) / own).string() : path;
}

std::string ClipOutput::PathBeside(const v1::Video& video, const v1::Artifact& artifact, int n) const {
  const fs::path path(Expand(video, n));
  const bool named = !path_.empty() && !to_standard_output() && !IsFolder();
  const std::string stem = named ? path.stem().string() : FileName(video.id());
  const std::string name = absl::StrCat(stem, ".", FileName(artifact.file_name()));
  return (IsFolder() ? path : path.parent_path()) / name;
}

absl::Status ClipOutput::CheckEnding(const v1::Artifact& artifact) const {
  if (path_.empty() || to_standard_output() || IsFolder()) return absl::OkStatus();
  const std::string extension = fs::path(artifact.file_name()).extension();
  if (absl::EqualsIgnoreCase(fs::path(path_).extension().string(), extension)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--output ", path_, ": the job's file is ",
                                                 FileName(artifact.file_name()), "; use the extension ", extension));
}

absl::Status ClipOutput::Place(OutputFile& file, const v1::Artifact& artifact, const std::string& path) const {
  if (!IsFolder() || !absl::EndsWith(artifact.file_name(), ".zip")) {
    KINORA_RETURN_IF_ERROR(MakeFolder(fs::path(path).parent_path()));
    return file.CommitAs(path);
  }
  KINORA_RETURN_IF_ERROR(MakeFolder(path));
  KINORA_RETURN_IF_ERROR(CheckFolder(path));
  int64_t frames = 0;
  return ReadZip(file.part(), [&](std::string_view name, std::string_view png) {
    if (name != FrameName(frames++)) {
      return absl::DataLossError(absl::StrCat(std::string(name), ": is not the next frame's name"));
    }
    if (frames == 1) KINORA_RETURN_IF_ERROR(RemoveFrames(path));
    return StoreFrame(path, name, png);
  });
}

}  // namespace kinora
