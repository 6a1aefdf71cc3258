// Attention of few queries over many keys, in chunks of keys that are kept apart: what a block computes depends on its
// chunk alone, so ranks may hold some chunks each and merge all of them to the same bits.
#ifndef KINORA_KERNELS_SPLIT_ATTENTION_H_
#define KINORA_KERNELS_SPLIT_ATTENTION_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// The maximum of a query that has seen no key: below any logit.
constexpr float kNoLogit = -3.0e38f;

// out[chunk, batch · queries, heads, width + 2] f32: Σ exp(l − m) v, m, Σ exp(l − m) over the chunk's keys, where l =
// scale · q kᵀ + bias and m the greatest l. A query that sees no key of a chunk: zeros and kNoLogit. Products and sums
// are float32, in an order that the width and the chunk decide.
//
// q: [batch · queries, heads · width]; k, v: [kv_batches · keys, kv_heads · width]; f32 or bf16, in any mixture. Query
// head h reads key head h / (heads / kv_heads). Bytes at least: k and v once, q once per chunk, out once.
struct SplitAttention {
  Rows q, k, v;
  float* out = nullptr;
  int64_t batch = 0, queries = 0, keys = 0;  // of a sequence
  int heads = 0, kv_heads = 0, width = 0;    // width: a multiple of 8, at most 256
  int chunks = 0;                            // of keys / chunks keys each
  int64_t key_end = 0;                       // keys of a sequence that count
  float scale = 1.0f;
  uint64_t kv_batch = 0;        // a byte each, the lowest for the first query batch: which sequence of keys it reads
  bool causal = false;          // key position <= query position
  int64_t window = 0;           // with causal: query position - key position < window; 0: no window
  const float* bias = nullptr;  // [queries, keys]
  int64_t bias_stride = 0;
};

// cudaErrorInvalidValue: a width that is not said above, chunks that do not divide the keys, more than 8 batches.
cudaError_t LaunchSplitAttention(const SplitAttention& attention, cudaStream_t stream);

// chunks: [count, rows, heads, width + 2] as above -> out [rows, heads · width], in the chunks' order, times 2 ·
// sigmoid(logit) of its head where there are logits. A query that has seen no key: zeros. Bytes at least: each once.
struct MergeSplits {
  const float* chunks = nullptr;
  const float* logits = nullptr;  // [rows, heads]; null: no gates
  Rows out;
  int64_t rows = 0;
  int count = 0, heads = 0, width = 0;
};

// cudaErrorInvalidValue: nothing to merge, or a width beyond 256.
cudaError_t LaunchMergeSplits(const MergeSplits& merge, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SPLIT_ATTENTION_H_
