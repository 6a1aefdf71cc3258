// An unnamed file that holds an upload until its end: UploadInput needs the size and the SHA-256 first.
#ifndef KINORA_SERVER_GATEWAY_SPOOL_FILE_H_
#define KINORA_SERVER_GATEWAY_SPOOL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "server/common/sha256.h"

namespace kinora {

class SpoolFile {
 public:
  // In `folder`. ResourceExhausted, …: the file cannot be created.
  static absl::StatusOr<std::unique_ptr<SpoolFile>> Create(const std::string& folder);

  // ResourceExhausted: the disk is full.
  absl::Status Append(std::string_view bytes);
  // After the last Append; call once.
  void Finish() { sha256_ = sum_.Hex(); }

  int64_t size() const { return size_; }
  const std::string& sha256() const { return sha256_; }  // after Finish
  // Returns at most `most` bytes from `offset` on; empty at the end.
  absl::StatusOr<std::string> Read(int64_t offset, size_t most) const;

 private:
  explicit SpoolFile(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
  Sha256 sum_;
  std::string sha256_;
  int64_t size_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_SPOOL_FILE_H_
