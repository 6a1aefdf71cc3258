// A file that appears complete or not at all. It is written next to the target as PATH.XXXX.part, with a random name so
// that two writers of one path do not collide, and renamed by Commit.
#ifndef KINORA_ENGINE_MEDIA_OUTPUT_FILE_H_
#define KINORA_ENGINE_MEDIA_OUTPUT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

// The name of a partial file, for writers that open the file themselves. Removes the file unless it is committed.
class PartFile {
 public:
  explicit PartFile(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& part() const { return part_; }
  // Renames the file, which must be closed, to path() or to another path on the same file system.
  absl::Status Commit() { return CommitAs(path_); }
  absl::Status CommitAs(const std::string& path);

 private:
  const std::string path_;
  std::string part_;
  bool committed_ = false;
};

// Sequential writes to a PartFile. Errors contain the path; a full disk is ResourceExhausted. Does not fsync: callers
// that need durability (the artifact store) must do that.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(std::string path);
  ~OutputFile();

  absl::Status Write(std::string_view bytes);
  int64_t size() const { return size_; }
  const std::string& part() const { return file_.part(); }  // the file's path until it is committed
  absl::Status Commit() { return CommitAs(file_.path()); }  // closes and renames the file
  absl::Status CommitAs(const std::string& path);

 private:
  explicit OutputFile(std::string path) : file_(std::move(path)) {}

  PartFile file_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_OUTPUT_FILE_H_
