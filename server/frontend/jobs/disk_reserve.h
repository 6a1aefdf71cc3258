// Disk space reserved for operations that free space. When the file system is full, the blocks of the reserve file are
// released piece by piece, so that jobs can still be ended and deleted. Use from one thread at a time.
#ifndef KINORA_SERVER_FRONTEND_JOBS_DISK_RESERVE_H_
#define KINORA_SERVER_FRONTEND_JOBS_DISK_RESERVE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

class DiskReserve {
 public:
  static constexpr int64_t kBytes = 4 << 20;
  static constexpr int64_t kPiece = 256 << 10;

  // `path` "": no reserve is needed, and it counts as full. Takes over the file of an earlier process.
  explicit DiskReserve(std::string path) : path_(std::move(path)), whole_(path_.empty()) {}

  // Allocates the whole file (mode 0600); returns at once if that is done. ResourceExhausted (DISK_FULL): there is no
  // space; the present blocks are kept.
  absl::Status Fill();

  // Releases one piece; false if none is left.
  bool Release();

 private:
  bool Open();

  std::string path_;
  FileDescriptor file_;
  bool whole_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_DISK_RESERVE_H_
