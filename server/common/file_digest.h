// The length and digest of a file.
#ifndef KINORA_SERVER_COMMON_FILE_DIGEST_H_
#define KINORA_SERVER_COMMON_FILE_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/common/artifact_store.h"

namespace kinora {

// Reads the open file from its beginning, in pieces of 1 MiB. Errors are those of FileError and name `path`.
absl::StatusOr<StoredFile> DigestFile(const std::string& path, int fd);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_FILE_DIGEST_H_
