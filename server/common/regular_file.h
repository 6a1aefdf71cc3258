// Reads whole files that a configuration names: the configuration itself, tokens, certificates. Rejects files that are
// not regular, so that a FIFO or a device cannot block startup, and files of more than kMaxRegularFile bytes.
#ifndef KINORA_SERVER_COMMON_REGULAR_FILE_H_
#define KINORA_SERVER_COMMON_REGULAR_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kinora {

inline constexpr int64_t kMaxRegularFile = 4 << 20;

struct RegularFile {
  std::string bytes;
  mode_t mode = 0;  // of the file that was read, even if the path names another by now
};

// Follows links. Errors name `path`: NotFound, PermissionDenied or Unavailable if it cannot be opened or read,
// FailedPrecondition if it is not a regular file or is too large.
absl::StatusOr<RegularFile> ReadRegularFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_REGULAR_FILE_H_
