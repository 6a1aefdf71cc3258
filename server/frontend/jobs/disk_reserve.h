// Room on the disk that nothing takes but what frees room: a file of blocks, given back to the file system piece by
// piece when that is full, so that jobs can be ended and deleted then. One thread at a time.
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

  // `path` "": nothing needs a reserve, it is always whole. What an earlier process left of the file is taken over.
  explicit DiskReserve(std::string path) : path_(std::move(path)), whole_(path_.empty()) {}

  // Makes it whole: mode 0600, all blocks on the disk. At no cost while it is whole. ResourceExhausted (DISK_FULL):
  // there is no room for that; what there was of it stays.
  absl::Status Fill();

  // Gives a piece back; false: nothing is left of it.
  bool Release();

 private:
  bool Open();

  std::string path_;
  FileDescriptor file_;
  bool whole_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_DISK_RESERVE_H_
