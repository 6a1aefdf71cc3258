#include "server/frontend/inputs/part_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/status_details.h"
#include "server/request/input_refs.h"
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

// Removes the files in `folder` whose names `chosen` accepts and returns their number.
int64_t RemoveFiles(const std::string& folder, const std::function<bool(const std::string& name)>& chosen) {
  int64_t removed = 0;
  std::error_code error;
  if (fs::is_symlink(folder, error)) {
    Log(Severity::kWarning, "link_not_cleared", {{"folder", folder}});
    return 0;
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!chosen(entry.path().filename().string())) continue;
    removed += unlink(entry.path().c_str()) == 0 ? 1 : 0;
  }
  return removed;
}

}  // namespace

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<std::unique_ptr<PartFolder>> PartFolder::Open(std::string path, DirectoryArtifactStore& store) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileError(path, "create directory");
  return std::unique_ptr<PartFolder>(new PartFolder(std::move(path), store));
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

absl::StatusOr<StoredFile> PartFolder::Commit(const std::string& sha256, const std::string& key) {
  return store_.Put(key, PathOf(sha256));
}

// Moves a complete file back to its part if the process was killed after placing the file but before storing its
// record.
void PartFolder::Restore(const InputRecord& record, const std::string& stored_folder) {
  std::error_code error;
  const fs::path placed = fs::path(stored_folder) / record.sha256, part = PathOf(record.sha256);
  if (!record.media_type.empty() || fs::exists(part, error)) return;
  if (fs::file_size(placed, error) != static_cast<uintmax_t>(record.bytes) || error) return;
  fs::rename(placed, part, error);
  if (!error) Log(Severity::kInfo, "input_to_be_completed", {{"input", record.sha256}});
}

int64_t PartFolder::Reconcile(const std::vector<InputRecord>& records) {
  const std::string stored_folder = absl::StrCat(store_.root(), "/", kInputsFolder);
  absl::flat_hash_map<std::string, bool> whole;  // by sha256
  for (const InputRecord& record : records) {
    Restore(record, stored_folder);
    whole[record.sha256] = !record.media_type.empty();
  }
  const auto without_record = [&whole](bool is_whole) {
    return [&whole, is_whole](const std::string& name) {
      const auto found = whole.find(name);
      return IsSha256(name) && (found == whole.end() || found->second != is_whole);
    };
  };
  return RemoveFiles(path_, without_record(false)) + RemoveFiles(stored_folder, without_record(true));
}

}  // namespace kinora
