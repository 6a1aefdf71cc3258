// Files that a configuration names, read whole: the configuration itself, tokens, certificates. Only regular files, so
// that a FIFO or a device cannot hold up a start, and none of more than kMaxRegularFile bytes.
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
  mode_t mode = 0;  // of the file that was read, whatever its path leads to by now
};

// Follows links. NotFound, PermissionDenied or Unavailable: it cannot be opened or read. FailedPrecondition: it is no
// regular file, or larger. Each names `path`.
absl::StatusOr<RegularFile> ReadRegularFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_REGULAR_FILE_H_
