#include "server/worker/scratch_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
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

// Returns the same path to every process of a rank, so that a new process removes the files of one that was killed.
std::string PrivatePath(const v1::WorkerConfig& config) {
  constexpr size_t kDigits = 16;
  const std::string rank = absl::StrCat(config.frontend(), "\n", config.group(), "\n", config.rank());
  return absl::StrCat(ScratchDirectory(config), "/kinora-", geteuid(), "-", Sha256Hex(rank).substr(0, kDigits));
}

absl::Status MakePrivate(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileError(path, "create directory");
  return absl::OkStatus();
}

// OK if there is nothing at `path`.
absl::Status CheckPrivate(const std::string& path) {
  struct stat info;
  const bool there = lstat(path.c_str(), &info) == 0;
  if (!there || (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 0077) == 0)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("scratch_directory: ", path, " is not a private folder of this user (mode 0700); remove it"));
}

absl::Status WriteALittle(const std::string& path) {
  const std::string bytes(4096, '\0');
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.ok()) return FileError(path, "create");
  const ssize_t written = write(file.get(), bytes.data(), bytes.size());
  absl::Status status = written == static_cast<ssize_t>(bytes.size()) ? absl::OkStatus() : FileError(path, "write");
  unlink(path.c_str());
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchStore>> ScratchStore::Open(const v1::WorkerConfig& config) {
  const std::string path = PrivatePath(config);
  KINORA_RETURN_IF_ERROR(CheckPrivate(path));
  auto store = std::unique_ptr<ScratchStore>(new ScratchStore(path));
  const bool made = MakePrivate(path).ok() && At(path).ok();
  if (made) store->RemoveUnfinished().IgnoreError();
  return store;
}

ScratchStore::~ScratchStore() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

absl::Status ScratchStore::CheckRoom(int64_t bytes) {
  KINORA_RETURN_IF_ERROR(CheckPrivate(path_));
  absl::Status status = TryRoom(bytes);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("scratch_directory: ", std::string(status.message())));
}

absl::Status ScratchStore::TryRoom(int64_t bytes) {
  KINORA_RETURN_IF_ERROR(MakePrivate(path_));
  KINORA_RETURN_IF_ERROR(At(path_).status());
  KINORA_ASSIGN_OR_RETURN(const std::string probe, TemporaryPath("probe"));
  KINORA_RETURN_IF_ERROR(WriteALittle(probe));
  KINORA_ASSIGN_OR_RETURN(const int64_t free_bytes, FreeBytes());
  if (free_bytes >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(path_, ": ", free_bytes, " bytes are free, but ", bytes, " are required"));
}

}  // namespace kinora
