#include "engine/media/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"

namespace kinora {
namespace {

absl::Status WriteAll(int descriptor, int64_t offset, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = Uninterrupted([&] { return pwrite(descriptor, bytes.data(), bytes.size(), offset); });
    if (n < 0) return absl::ErrnoToStatus(errno, "writing " + path);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

}  // namespace

PartFile::PartFile(std::string path) : path_(std::move(path)) {
  // Random, not a counter, because writers may run on several hosts that share a file system.
  std::random_device random;
  part_ = absl::StrCat(path_, ".", absl::Hex(random(), absl::kZeroPad8), ".part");
}

PartFile::~PartFile() {
  if (!committed_) unlink(part_.c_str());
}

absl::Status PartFile::CommitAs(const std::string& path) {
  if (std::rename(part_.c_str(), path.c_str()) != 0) return absl::ErrnoToStatus(errno, "renaming to " + path);
  committed_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(std::string path) {
  std::unique_ptr<OutputFile> file(new OutputFile(std::move(path)));
  file->descriptor_ = open(file->file_.part().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file->descriptor_ < 0) return absl::ErrnoToStatus(errno, "creating " + file->file_.path());
  return file;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status OutputFile::Write(std::string_view bytes) {
  KINORA_RETURN_IF_ERROR(WriteAll(descriptor_, size_, bytes, file_.path()));
  size_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status OutputFile::CommitAs(const std::string& path) {
  const int failed = close(std::exchange(descriptor_, -1));  // a network file system reports late errors here
  if (failed != 0) return absl::ErrnoToStatus(errno, "closing " + path);
  return file_.CommitAs(path);
}

}  // namespace kinora
