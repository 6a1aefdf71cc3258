#include "server/frontend/inputs/part_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/status_details.h"
#include "server/request/media_type.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

absl::Status PartError(const std::string& path, const char* verb) {
  const absl::Status status = FileError(path, verb);
  return absl::IsResourceExhausted(status) ? WithErrorInfo(WithRetryInfo(status, absl::Minutes(1)), "DISK_FULL")
                                           : status;
}

// Opens a regular file. O_NONBLOCK, because opening a FIFO would wait for its other end.
absl::StatusOr<FileDescriptor> OpenPart(const std::string& path, int flags, const char* verb) {
  FileDescriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat info;
  if (!file.ok() || fstat(file.get(), &info) != 0) return PartError(path, verb);
  if (S_ISREG(info.st_mode)) return file;
  return OfFile(path, absl::UnavailableError(absl::StrCat(path, ": cannot ", verb, ": not a regular file")));
}

}  // namespace

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

absl::Status PartFolder::MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileError(path, "create directory");
  return absl::OkStatus();
}

absl::Status PartFolder::Begin(const std::string& sha256, int64_t bytes) {
  const std::string path = PathOf(sha256);
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor file, OpenPart(path, O_WRONLY | O_CREAT, "create"));
  return ftruncate(file.get(), bytes) == 0 ? absl::OkStatus() : PartError(path, "cut");
}

absl::Status PartFolder::Write(const std::string& sha256, std::string_view data, int64_t& at) {
  const std::string path = PathOf(sha256);
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor file, OpenPart(path, O_WRONLY, "open"));
  while (!data.empty()) {
    const ssize_t n = Uninterrupted([&] { return pwrite(file.get(), data.data(), data.size(), at); });
    if (n < 0) return PartError(path, "write");
    data.remove_prefix(n);
    at += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartFolder::Head(const std::string& sha256) {
  const std::string path = PathOf(sha256);
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor file, OpenPart(path, O_RDONLY, "open"));
  std::string head(kMediaHead, '\0');
  const ssize_t n = pread(file.get(), head.data(), head.size(), 0);
  if (n < 0) return PartError(path, "read");
  head.resize(n);
  return head;
}

int64_t PartFolder::Bytes(const std::string& sha256) const {
  struct stat info;
  return stat(PathOf(sha256).c_str(), &info) == 0 ? info.st_size : 0;
}

void PartFolder::Remove(const std::string& sha256) { unlink(PathOf(sha256).c_str()); }

int64_t PartFolder::RemoveParts(const std::vector<InputRecord>& records) {
  absl::flat_hash_set<std::string> incomplete;
  for (const InputRecord& record : records) {
    if (record.media_type.empty()) incomplete.insert(record.sha256);
  }
  return RemoveInputs(path_, [&](const std::string& sha256) { return !incomplete.contains(sha256); });
}

int64_t PartFolder::RemoveInputs(const std::string& folder,
                                 const std::function<bool(const std::string& sha256)>& chosen) {
  int64_t removed = 0;
  std::error_code error;
  if (fs::is_symlink(folder, error)) {
    Log(Severity::kWarning, "link_not_cleared", {{"folder", folder}});
    return 0;
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (IsSha256(name) && chosen(name)) removed += unlink(entry.path().c_str()) == 0 ? 1 : 0;
  }
  return removed;
}

}  // namespace kinora
