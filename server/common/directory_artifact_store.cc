#include "server/common/directory_artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

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

absl::StatusOr<StoredFile> Digest(const std::string& path, int fd) {
  StoredFile out;
  Sha256 sha256;
  std::string buffer(kCopyBytes, '\0');
  while (true) {
    const ssize_t n = pread(fd, buffer.data(), buffer.size(), out.bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path, "read");
    if (n == 0) break;
    sha256.Update(std::string_view(buffer.data(), n));
    out.bytes += n;
  }
  out.sha256 = sha256.Hex();
  return out;
}

// Nobody else's, and durable.
absl::StatusOr<StoredFile> Seal(const std::string& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return FileError(path, "open");
  if (fchmod(fd.get(), 0600) != 0) return FileError(path, "make private");  // whoever wrote it
  if (fsync(fd.get()) != 0) return FileError(path, "sync");
  return Digest(path, fd.get());
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  FileDescriptor in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.ok()) return FileError(from, "open");
  FileDescriptor out(open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!out.ok()) return FileError(to, "create");
  std::string buffer(kCopyBytes, '\0');
  while (true) {
    const ssize_t n = read(in.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(from, "read");
    if (n == 0) return absl::OkStatus();
    for (ssize_t done = 0; done < n;) {
      const ssize_t written = write(out.get(), buffer.data() + done, n - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError(to, "write");
      done += written;
    }
  }
}

class FileReader : public ArtifactReader {
 public:
  FileReader(std::string path, FileDescriptor fd, int64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  int64_t size() const override { return size_; }
  absl::StatusOr<std::string> Read(int64_t offset, int64_t limit) override {
    std::string bytes(std::clamp<int64_t>(size_ - offset, 0, limit), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = pread(fd_.get(), bytes.data() + done, bytes.size() - done, offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(path_, "read");
      if (n == 0)
        return OfFile(path_, absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset + done, " of ", size_)));
      done += n;
    }
    return bytes;
  }

 private:
  const std::string path_;
  const FileDescriptor fd_;
  const int64_t size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryArtifactStore>> DirectoryArtifactStore::At(const std::string& root) {
  const fs::path absolute = fs::absolute(root);
  for (const fs::path& path : {absolute, absolute / kTemporary}) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileError(path.string(), "create directory");
    if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return FileError(path.string(), "write in");
  }
  return std::unique_ptr<DirectoryArtifactStore>(new DirectoryArtifactStore(absolute.string()));
}

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
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().rfind(beginning, 0) != 0) continue;
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

// Where it lies it stays until it is durable and known: of a process that is killed meanwhile its owner finds it again.
absl::StatusOr<StoredFile> DirectoryArtifactStore::Put(std::string_view key, const std::string& file) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  KINORA_ASSIGN_OR_RETURN(const std::string staged, TemporaryPath(key));
  struct RemoveOnExit {
    const std::string& path;
    ~RemoveOnExit() { unlink(path.c_str()); }  // nothing is there after a rename
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

absl::StatusOr<std::unique_ptr<ArtifactReader>> DirectoryArtifactStore::Open(std::string_view key) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  std::string path = absl::StrCat(root_, "/", std::string(key));
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return FileError(path, "open");
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return FileError(path, "examine");
  if (!S_ISREG(info.st_mode)) return OfFile(path, absl::NotFoundError(absl::StrCat(path, ": not a file")));
  return std::make_unique<FileReader>(std::move(path), std::move(fd), info.st_size);
}

absl::Status DirectoryArtifactStore::Delete(std::string_view prefix) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(prefix));
  const fs::path path = fs::path(root_) / std::string(prefix);
  std::error_code error;
  fs::remove_all(path, error);
  errno = error.value();
  return error ? FileError(path.string(), "delete") : absl::OkStatus();
}

}  // namespace kinora
