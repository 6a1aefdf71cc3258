// A file that appears whole or not at all: it is written beside the target, as PATH.XXXX.part with a name
// of its own (two writers of one path do not meet), and renamed by Commit.
#ifndef KINORA_ENGINE_MEDIA_OUTPUT_FILE_H_
#define KINORA_ENGINE_MEDIA_OUTPUT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

// The name of a file being written, removed unless committed. For writers that open the file themselves.
class PartFile {
 public:
  explicit PartFile(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& part() const { return part_; }
  // Renames to `path`, or to another one of the same file system; the file must be closed.
  absl::Status Commit() { return CommitAs(path_); }
  absl::Status CommitAs(const std::string& path);

 private:
  const std::string path_;
  std::string part_;
  bool committed_ = false;
};

// Sequential writes to a PartFile. Errors carry the path; a full disk is RESOURCE_EXHAUSTED. Not fsynced: whoever
// promises durability (the artifact store) does that.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(std::string path);
  ~OutputFile();

  absl::Status Write(std::string_view bytes);
  int64_t size() const { return size_; }
  const std::string& part() const { return file_.part(); }  // where the bytes are until they are committed
  absl::Status Commit() { return CommitAs(file_.path()); }  // close and rename
  absl::Status CommitAs(const std::string& path);

 private:
  explicit OutputFile(std::string path) : file_(std::move(path)) {}

  PartFile file_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_OUTPUT_FILE_H_
