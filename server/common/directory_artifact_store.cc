#include "server/common/directory_artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_digest.h"
#include "server/common/file_error.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporary[] = ".tmp";  // no key begins with a dot, so no key can name it
constexpr int64_t kCopyBytes = 1 << 20;

absl::Status SyncDirectory(const std::string& path) {
  FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok() || fsync(directory.get()) != 0) return FileError(path, "sync");
  return absl::OkStatus();
}

// Whether `name` has the form of TemporaryPath's: "<process id>-<counter>-<key>".
bool IsTemporaryName(std::string_view name) {
  for (int i = 0; i < 2; ++i) {
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || digits == name.size() || name[digits] != '-') return false;
    name.remove_prefix(digits + 1);
  }
  return CheckArtifactKey(name).ok();  // the key's slashes are underscores here
}

// Creates the directories between root and path and makes their entries durable.
absl::Status MakeDirectories(const std::string& root, const fs::path& relative) {
  fs::path path = root;
  for (const fs::path& part : relative) {
    const fs::path parent = path;
    path /= part;
    if (mkdir(path.c_str(), 0700) == 0) {
      KINORA_RETURN_IF_ERROR(SyncDirectory(parent.string()));
    } else if (errno != EEXIST) {
      return FileError(path.string(), "create directory");
    }
  }
  return absl::OkStatus();
}

// Opens a regular file for reading. O_NONBLOCK: opening a FIFO must not wait for its other end.
absl::StatusOr<FileDescriptor> OpenRegular(const std::string& path, int flags, struct stat* info) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!fd.ok()) return FileError(path, "open");
  if (fstat(fd.get(), info) != 0) return FileError(path, "examine");
  if (!S_ISREG(info->st_mode)) return OfFile(path, absl::NotFoundError(absl::StrCat(path, ": not a file")));
  return fd;
}

// Makes the file private and durable, and digests it.
absl::StatusOr<StoredFile> Seal(const std::string& path) {
  struct stat info;
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegular(path, 0, &info));
  if (fchmod(fd.get(), 0600) != 0) return FileError(path, "make private");  // regardless of the writer's umask
  if (fsync(fd.get()) != 0) return FileError(path, "sync");
  return DigestFile(path, fd.get());
}

absl::Status WriteAll(const std::string& path, int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = Uninterrupted([&] { return write(fd, data.data(), data.size()); });
    if (n < 0) return FileError(path, "write");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  struct stat info;
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor in, OpenRegular(from, 0, &info));
  FileDescriptor out(open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!out.ok()) return FileError(to, "create");
  std::string buffer(kCopyBytes, '\0');
  while (true) {
    const ssize_t n = Uninterrupted([&] { return read(in.get(), buffer.data(), buffer.size()); });
    if (n < 0) return FileError(from, "read");
    if (n == 0) return absl::OkStatus();
    KINORA_RETURN_IF_ERROR(WriteAll(to, out.get(), std::string_view(buffer.data(), n)));
  }
}

class StagedFile : public StagedArtifact {
 public:
  StagedFile(DirectoryArtifactStore& store, std::string_view key) : key_(key), store_(store) {}
  ~StagedFile() override {
    if (!path_.empty()) unlink(path_.c_str());  // no longer there after Commit
  }

  absl::Status Create() {
    KINORA_ASSIGN_OR_RETURN(path_, store_.TemporaryPath(key_));
    fd_ = FileDescriptor(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return fd_.ok() ? absl::OkStatus() : ForClients(FileError(path_, "create"));
  }
  absl::Status Append(std::string_view data) override { return ForClients(WriteAll(path_, fd_.get(), data)); }
  absl::StatusOr<StoredFile> Commit() override {
    absl::StatusOr<StoredFile> stored = store_.Put(key_, path_);
    if (!stored.ok()) return ForClients(stored.status());
    return stored;
  }

 private:
  absl::Status ForClients(const absl::Status& status) const { return store_.ForClients(status, path_, key_); }

  const std::string key_;
  DirectoryArtifactStore& store_;
  std::string path_;
  FileDescriptor fd_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryArtifactStore>> DirectoryArtifactStore::At(const std::string& root) {
  const fs::path absolute = fs::absolute(root);
  for (const fs::path& path : {absolute, absolute / kTemporary}) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileError(path.string(), "create directory");
    if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return FileError(path.string(), "write in");
  }
  return Named(root);
}

std::unique_ptr<DirectoryArtifactStore> DirectoryArtifactStore::Named(const std::string& root) {
  return std::unique_ptr<DirectoryArtifactStore>(new DirectoryArtifactStore(root));
}

DirectoryArtifactStore::DirectoryArtifactStore(const std::string& root) : root_(fs::absolute(root).string()) {}

absl::StatusOr<std::string> DirectoryArtifactStore::TemporaryPath(std::string_view key) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  // Process id and a counter keep writers apart; the key's ending stays, because muxers choose a format by it.
  static std::atomic<int64_t> counter{0};
  return absl::StrCat(root_, "/", kTemporary, "/", getpid(), "-", counter.fetch_add(1), "-",
                      absl::StrReplaceAll(std::string(key), {{"/", "_"}}));
}

absl::Status DirectoryArtifactStore::RemoveUnfinished() { return RemoveTemporary(""); }

absl::Status DirectoryArtifactStore::RemoveUnfinishedOf(pid_t pid) { return RemoveTemporary(absl::StrCat(pid, "-")); }

absl::Status DirectoryArtifactStore::RemoveTemporary(std::string_view beginning) {
  std::error_code error;
  const fs::path folder = fs::path(root_) / kTemporary;
  fs::path at = folder;
  if (fs::is_symlink(folder, error)) {  // the link's target may belong to somebody else
    Log(Severity::kWarning, "link_not_cleared", {{"folder", folder.string()}});
    return absl::OkStatus();
  }
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind(beginning, 0) != 0 || !IsTemporaryName(name)) continue;
    fs::remove_all(entry->path(), error);
    if (error) at = entry->path();
    if (error) break;
  }
  return error ? absl::UnavailableError(absl::StrCat(at.string(), ": ", error.message())) : absl::OkStatus();
}

absl::StatusOr<int64_t> DirectoryArtifactStore::FreeBytes() const {
  struct statvfs info;
  if (statvfs(root_.c_str(), &info) != 0) return FileError(root_, "ask for free space");
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

// `file` stays at its path until it is durable and digested: if this process is killed before that, the file's owner
// still finds it.
absl::StatusOr<StoredFile> DirectoryArtifactStore::Put(std::string_view key, const std::string& file) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  KINORA_ASSIGN_OR_RETURN(const std::string staged, TemporaryPath(key));
  struct RemoveOnExit {
    const std::string& path;
    ~RemoveOnExit() { unlink(path.c_str()); }  // no longer there after a rename
  } cleanup{staged};
  KINORA_ASSIGN_OR_RETURN(StoredFile stored, Seal(file));
  const fs::path relative = fs::path(std::string(key));
  KINORA_RETURN_IF_ERROR(MakeDirectories(root_, relative.parent_path()));
  const fs::path target = root_ / relative;
  if (rename(file.c_str(), target.c_str()) != 0) {
    if (errno != EXDEV) return FileError(target.string(), "rename into place");
    const absl::Status copied = CopyFile(file, staged);
    unlink(file.c_str());
    KINORA_RETURN_IF_ERROR(copied);
    KINORA_ASSIGN_OR_RETURN(stored, Seal(staged));
    if (rename(staged.c_str(), target.c_str()) != 0) return FileError(target.string(), "rename into place");
  }
  KINORA_RETURN_IF_ERROR(SyncDirectory(target.parent_path().string()));
  return stored;
}

absl::StatusOr<std::unique_ptr<StagedArtifact>> DirectoryArtifactStore::Begin(std::string_view key) {
  auto staged = std::make_unique<StagedFile>(*this, key);
  KINORA_RETURN_IF_ERROR(staged->Create());
  return staged;
}

absl::StatusOr<FileDescriptor> DirectoryArtifactStore::OpenKey(std::string_view key, struct stat* info) const {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  return OpenRegular(absl::StrCat(root_, "/", std::string(key)), O_NOFOLLOW, info);
}

absl::StatusOr<FileDescriptor> DirectoryArtifactStore::OpenFile(std::string_view key) const {
  struct stat info;
  return OpenKey(key, &info);
}

absl::StatusOr<int64_t> DirectoryArtifactStore::Size(std::string_view key) {
  struct stat info;
  KINORA_RETURN_IF_ERROR(OpenKey(key, &info).status());
  return info.st_size;
}

absl::StatusOr<ArtifactPiece> DirectoryArtifactStore::Read(std::string_view key, int64_t offset, int64_t limit) {
  struct stat info;
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor file, OpenKey(key, &info));
  ArtifactPiece piece{.data = std::string(std::clamp<int64_t>(info.st_size - offset, 0, limit), '\0'),
                      .size = info.st_size};
  const std::string path = absl::StrCat(root_, "/", std::string(key));
  size_t done = 0;
  while (done < piece.data.size()) {
    const ssize_t n = Uninterrupted(
        [&] { return pread(file.get(), piece.data.data() + done, piece.data.size() - done, offset + done); });
    if (n < 0) return FileError(path, "read");
    if (n == 0) {
      return OfFile(path,
                    absl::DataLossError(absl::StrCat(path, ": ends at byte ", offset + done, " of ", piece.size)));
    }
    done += n;
  }
  return piece;
}

absl::StatusOr<ArtifactLink> DirectoryArtifactStore::Link(std::string_view, const LinkRequest&) {
  return absl::FailedPreconditionError(
      "artifacts are in a folder of the server, to which no links lead; download them");
}

absl::StatusOr<std::vector<std::string>> DirectoryArtifactStore::Keys(std::string_view prefix) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(prefix));
  std::vector<std::string> keys;
  std::error_code error;
  const fs::path path = fs::path(root_) / std::string(prefix);
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    std::string key = entry->path().lexically_relative(root_).string();
    if (entry->symlink_status(error).type() == fs::file_type::regular && CheckArtifactKey(key).ok()) {
      keys.push_back(std::move(key));
    }
  }
  if (!error || error == std::errc::no_such_file_or_directory) return keys;
  errno = error.value();
  return FileError(path.string(), "list");
}

absl::Status DirectoryArtifactStore::Delete(std::string_view prefix) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(prefix));
  const fs::path path = fs::path(root_) / std::string(prefix);
  std::error_code error;
  fs::remove_all(path, error);
  errno = error.value();
  return error ? FileError(path.string(), "delete") : absl::OkStatus();
}

absl::Status DirectoryArtifactStore::ForClients(const absl::Status& status, const std::string& file,
                                                std::string_view key) const {
  const std::string message(status.message());
  if (status.ok() || message.find(root_) == std::string::npos) return status;
  std::string told = message;
  if (!file.empty()) told = absl::StrReplaceAll(told, {{file, std::string(key.substr(key.rfind('/') + 1))}});
  told = absl::StrReplaceAll(told, {{root_, "artifacts"}});
  const absl::Status named(status.code(), told);
  return absl::IsResourceExhausted(named) ? WithErrorInfo(named, "DISK_FULL", {{"retryable", "true"}}) : named;
}

absl::StatusOr<std::vector<std::string>> DirectoryArtifactStore::FirstParts() {
  std::vector<std::string> parts;
  std::error_code error;
  for (fs::directory_iterator entry(root_, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() != '.') parts.push_back(std::move(name));
  }
  errno = error.value();
  if (error) return FileError(root_, "list");
  return parts;
}

absl::Status DirectoryArtifactStore::CheckRoom(int64_t bytes) {
  KINORA_ASSIGN_OR_RETURN(const int64_t free_bytes, FreeBytes());
  if (free_bytes >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(free_bytes, " bytes are free for artifacts, but ", bytes, " are required"));
}

}  // namespace kinora
