// The fixed scratch memory of one thread of the CPU backend: block sizes, and bytes per operand. Internal to the CPU
// backend.
#ifndef KINORA_ENGINE_OPS_CPU_WORKSPACE_H_
#define KINORA_ENGINE_OPS_CPU_WORKSPACE_H_

#include <cstdint>

#include "engine/ops/op_params.h"

namespace kinora {

// Matmul and convolution: a block of rows is packed kBlockDepthBytes at a time and multiplied by kBlockColumns columns
// at a time; sums are kept in float32.
inline constexpr int64_t kBlockRows = 96;  // a multiple of every tile's rows (12, 6 and 32)
// 512 float32 or 1024 bf16: a packed block is 192 KiB, in L2 with its sums.
inline constexpr int64_t kBlockDepthBytes = 2048;
inline constexpr int64_t kBlockColumns = 1024;
// 256 KiB for tiles of 12 rows with 16 lanes, which taps share. Tiles of 32 rows with 40 lanes take 240 KiB; results
// that are discarded read past their end.
inline constexpr int64_t kPackedBytes = kBlockRows / 12 * 16 * kBlockDepthBytes;
inline constexpr int64_t kSumBytes = kBlockRows * kBlockColumns * 4;

// Attention: a task packs its queries once, then the keys and values of its head `kKeyBlock` at a time; only the logits
// of one panel of queries against that block exist at once, and they stay in L1.
inline constexpr int64_t kMaxQueryRows = 768;            // per task; its panels share packed keys and values
inline constexpr int64_t kPackedQueryBytes = 192 << 10;  // with sums, keys and values: most of an L2 of 1 MiB
inline constexpr int64_t kKeyBlock = 240;  // even, and a multiple of 12 and 6, the row counts of vector tiles
inline constexpr int64_t kFullBlockWidth =
    256;  // widest head whose keys come in whole blocks; of wider ones, in halves
inline constexpr int64_t kMaxPanelColumns = 32;
inline constexpr int64_t kMaxPanels = kMaxQueryRows / 8;  // for the narrowest panel
inline constexpr int64_t kPackedKeyBytes = kKeyBlock * kFullBlockWidth * 4;
inline constexpr int64_t kPackedValueBytes = kKeyBlock * (kFullBlockWidth + 12) * 4;  // rounded up to a whole tile
static_assert(kMaxHeadWidth <= 2 * kFullBlockWidth);
inline constexpr int64_t kLogitBytes = kKeyBlock * kMaxPanelColumns * 4;
inline constexpr int64_t kAttentionSumBytes = 2 * kPackedQueryBytes;  // sums are float32, queries may be bf16

// Neighbourhood attention: a task packs a few panels of queries, then, plane by plane, a block of the keys and values
// that some of them see. Gathered rows are float32 or bf16.
inline constexpr int64_t kMaxNeighbourhoodPanels = 8;
inline constexpr int64_t kNeighbourhoodBytes =
    kMaxNeighbourhoodPanels * kMaxPanelColumns * (2 * kMaxNeighbourhoodHeadWidth + 2) * 4 +  // queries, sums and state
    kKeyBlock * (3 * kMaxNeighbourhoodHeadWidth + 12) * 4 +                                  // keys, values, rows
    3 * kLogitBytes + kKeyBlock * 8;                                                         // logits, two masks

inline constexpr int64_t kMatmulBytes = kPackedBytes + kSumBytes + kBlockRows * 8;
inline constexpr int64_t kAttentionBytes = kPackedQueryBytes + kPackedKeyBytes + kPackedValueBytes + kLogitBytes +
                                           kAttentionSumBytes + 2 * kMaxQueryRows * 4 + kKeyBlock * 8;
inline constexpr int64_t kWorkspaceBytes = kMatmulBytes > kAttentionBytes ? kMatmulBytes : kAttentionBytes;
static_assert(kNeighbourhoodBytes <= kWorkspaceBytes);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_WORKSPACE_H_
