// errno as a Status that names the path.
#ifndef KINORA_SERVER_COMMON_FILE_ERROR_H_
#define KINORA_SERVER_COMMON_FILE_ERROR_H_

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace kinora {

// Payload of errors that name a file of this machine by its full path: that path. It stays in this process: ToRpcStatus
// reduces the path to the file's name.
inline constexpr char kFilePayload[] = "kinora.local/file";

inline absl::Status OfFile(const std::string& path, absl::Status status) {
  status.SetPayload(kFilePayload, absl::Cord(path));
  return status;
}

// Returns "PATH: cannot VERB: No space left on device" from errno. ResourceExhausted if the disk is full or a quota or
// size limit is exceeded.
inline absl::Status FileError(const std::string& path, const char* verb) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": cannot ", verb, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return OfFile(path, absl::ResourceExhaustedError(message));
    case ENOENT:
      return OfFile(path, absl::NotFoundError(message));
    case EACCES:
    case EPERM:
    case EROFS:
      return OfFile(path, absl::PermissionDeniedError(message));
    default:
      return OfFile(path, absl::UnavailableError(message));
  }
}

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_FILE_ERROR_H_
