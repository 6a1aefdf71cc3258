#include "server/worker/artifact_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

std::string ScratchDirectory(const v1::WorkerConfig& config) {
  if (!config.scratch_directory().empty()) return config.scratch_directory();
  const char* const temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

// The same in each life of the rank, so that the next removes what one that was killed left.
std::string PrivatePath(const v1::WorkerConfig& config) {
  constexpr size_t kDigits = 16;
  const std::string rank = absl::StrCat(config.frontend(), "\n", config.group(), "\n", config.rank());
  return absl::StrCat(ScratchDirectory(config), "/kinora-", geteuid(), "-", Sha256Hex(rank).substr(0, kDigits));
}

absl::Status MakePrivate(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  struct stat info;
  if (errno != EEXIST || lstat(path.c_str(), &info) != 0) return FileError(path, "create directory");
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 0077) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("scratch_directory: ", path, " is not a folder of this user's alone (mode 0700); remove it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactPlace>> ArtifactPlace::Open(const v1::WorkerConfig& config,
                                                                   const v1::Welcome& welcome) {
  auto place = std::unique_ptr<ArtifactPlace>(new ArtifactPlace);
  std::string path = welcome.artifact_directory();
  if (path.empty()) {
    path = PrivatePath(config);
    KINORA_RETURN_IF_ERROR(MakePrivate(path));
    place->private_ = path;
  }
  KINORA_ASSIGN_OR_RETURN(place->store_, DirectoryArtifactStore::At(path));
  if (!place->is_shared()) KINORA_RETURN_IF_ERROR(place->store_->RemoveUnfinished());
  return place;
}

ArtifactPlace::~ArtifactPlace() {
  std::error_code ignored;
  if (!private_.empty()) std::filesystem::remove_all(private_, ignored);
}

}  // namespace kinora
