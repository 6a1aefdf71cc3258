// The fixed scratch memory of one thread of the CPU backend: block sizes, and where each operand lies. Internal to the CPU backend.
#ifndef KINORA_ENGINE_OPS_CPU_WORKSPACE_H_
#define KINORA_ENGINE_OPS_CPU_WORKSPACE_H_

#include <cstdint>

namespace kinora {

// Matmul and convolution: a block of rows is packed `depth` at a time and multiplied by `columns` at a time; sums wait in float32.
inline constexpr int64_t kBlockRows = 96;      // a multiple of every tile_rows (12 and 6)
inline constexpr int64_t kBlockDepthBytes = 2048;  // 512 float32 or 1024 bf16: a packed block is 192 KiB, in L2 with its sums
inline constexpr int64_t kBlockColumns = 1024;
inline constexpr int64_t kPackedBytes = kBlockRows * kBlockDepthBytes;
inline constexpr int64_t kSumBytes = kBlockRows * kBlockColumns * 4;

// Attention: queries are taken `kQueryRows` at a time against `kKeyBlock` keys; the logits of `kTileQueries` exist at once.
inline constexpr int64_t kMaxHeadWidth = 256;
inline constexpr int64_t kQueryRows = 384;
inline constexpr int64_t kKeyBlock = 256;
inline constexpr int64_t kTileQueries = 48;  // a multiple of every tile_rows
inline constexpr int64_t kPackedQueryBytes = kQueryRows * kMaxHeadWidth * 4;
inline constexpr int64_t kPackedKeyBytes = kKeyBlock * kMaxHeadWidth * 4;
inline constexpr int64_t kLogitBytes = kTileQueries * kKeyBlock * 4;
inline constexpr int64_t kStateBytes = kQueryRows * (kMaxHeadWidth + 2) * 4;

inline constexpr int64_t kMatmulBytes = kPackedBytes + kSumBytes + kBlockRows * 8;
inline constexpr int64_t kAttentionBytes =
    kPackedQueryBytes + 2 * kPackedKeyBytes + 2 * kLogitBytes + kStateBytes + kQueryRows * 8;
inline constexpr int64_t kWorkspaceBytes = kMatmulBytes > kAttentionBytes ? kMatmulBytes : kAttentionBytes;

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_WORKSPACE_H_
