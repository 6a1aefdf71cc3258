// worker.proto's limit for UploadChunk, shared by sender and receiver.
#ifndef KINORA_SERVER_COMMON_UPLOAD_LIMITS_H_
#define KINORA_SERVER_COMMON_UPLOAD_LIMITS_H_

#include <cstddef>

namespace kinora {

inline constexpr size_t kMostUploadBytes = 1 << 20;  // UploadChunk.data

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_UPLOAD_LIMITS_H_
