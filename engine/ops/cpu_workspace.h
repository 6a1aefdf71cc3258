// The fixed scratch memory of one thread of the CPU backend: block sizes, and where each operand lies. Internal to the
// CPU backend.
#ifndef KINORA_ENGINE_OPS_CPU_WORKSPACE_H_
#define KINORA_ENGINE_OPS_CPU_WORKSPACE_H_

#include <cstdint>

#include "engine/ops/op_params.h"

namespace kinora {

// Matmul and convolution: a block of rows is packed `depth` at a time and multiplied by `columns` at a time; sums wait
// in float32.
inline constexpr int64_t kBlockRows = 96;  // a multiple of every tile's rows (12, 6 and 32)
inline constexpr int64_t kBlockDepthBytes =
    2048;  // 512 float32 or 1024 bf16: a packed block is 192 KiB, in L2 with its sums
inline constexpr int64_t kBlockColumns = 1024;
inline constexpr int64_t kPackedBytes =
    kBlockRows / 12 * 16 * kBlockDepthBytes;  // 256 KiB, where taps share tiles of 12 rows, with 16 lanes. Of 32 rows,
                                              // with 40 lanes, they are 240; results that nobody keeps read behind them
inline constexpr int64_t kSumBytes = kBlockRows * kBlockColumns * 4;

// Attention: a task packs its queries once, then the keys and values of its head `kKeyBlock` at a time; the logits of a
// panel of queries against that block are what exists at once, and stay in L1.
inline constexpr int64_t kMaxQueryRows = 768;  // of a task: panels share the packing of keys and values
inline constexpr int64_t kPackedQueryBytes =
    192 << 10;                             // with the sums and a block of keys and values: most of an L2 of 1 MiB
inline constexpr int64_t kKeyBlock = 240;  // a multiple of 12 and 6, the rows of tiles of vectors; even
inline constexpr int64_t kMaxPanelColumns = 32;
inline constexpr int64_t kMaxPanels = kMaxQueryRows / 8;  // of the narrowest panel
inline constexpr int64_t kPackedKeyBytes = kKeyBlock * kMaxHeadWidth * 4;
inline constexpr int64_t kPackedValueBytes = kKeyBlock * (kMaxHeadWidth + 12) * 4;  // up to a whole tile
inline constexpr int64_t kLogitBytes = kKeyBlock * kMaxPanelColumns * 4;
inline constexpr int64_t kAttentionSumBytes = 2 * kPackedQueryBytes;  // float32 for what may be bf16

inline constexpr int64_t kMatmulBytes = kPackedBytes + kSumBytes + kBlockRows * 8;
inline constexpr int64_t kAttentionBytes = kPackedQueryBytes + kPackedKeyBytes + kPackedValueBytes + kLogitBytes +
                                           kAttentionSumBytes + 2 * kMaxQueryRows * 4 + kKeyBlock * 8;
inline constexpr int64_t kWorkspaceBytes = kMatmulBytes > kAttentionBytes ? kMatmulBytes : kAttentionBytes;

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_WORKSPACE_H_
