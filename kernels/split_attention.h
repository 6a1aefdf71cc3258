// Attention of few queries over many keys, with separate results for chunks of keys. A block's result depends on its
// chunk alone, so each rank can hold some of the chunks, and merging all of them gives the same bits.
#ifndef KINORA_KERNELS_SPLIT_ATTENTION_H_
#define KINORA_KERNELS_SPLIT_ATTENTION_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// The maximum of a query that has seen no key: below any logit.
constexpr float kNoLogit = -3.0e38f;

// out[chunk, batch · queries, heads, width + 2] f32: Σ exp(l − m) v, m, Σ exp(l − m) over the chunk's keys,
// where l = scale · q kᵀ + bias and m is the greatest l. A query that sees no key of a chunk gets zeros and
// kNoLogit. Products and sums are float32, in an order that depends on the width and the chunk alone.
//
// q: [batch · queries, heads · width]; k, v: [kv_batches · keys, kv_heads · width]; f32 or bf16, in any mixture.
// Query head h reads key head h / (heads / kv_heads). Minimum traffic: k and v once, q once per chunk, out once.
struct SplitAttention {
  Rows q, k, v;
  float* out = nullptr;
  int64_t batch = 0, queries = 0, keys = 0;  // of a sequence
  int heads = 0, kv_heads = 0, width = 0;    // width: a multiple of 8, at most 256
  int chunks = 0;                            // each of keys / chunks keys
  int64_t key_end = 0;                       // keys from here on are ignored
  float scale = 1.0f;
  uint64_t kv_batch = 0;  // one byte per query batch, the lowest for the first: the sequence of keys that it reads
  bool causal = false;    // key position <= query position
  int64_t window = 0;     // with causal: query position - key position < window; 0: no window
  const float* bias = nullptr;  // [queries, keys]
  int64_t bias_stride = 0;
};

// Returns cudaErrorInvalidValue if the width is not supported, chunks do not divide the keys, or there are more than 8
// batches.
cudaError_t LaunchSplitAttention(const SplitAttention& attention, cudaStream_t stream);

// chunks: [count, rows, heads, width + 2] as above -> out [rows, heads · width], merged in the chunks' order; with
// logits, times 2 · sigmoid(logit) of the head. A query that has seen no key gets zeros. Minimum traffic: each once.
struct MergeSplits {
  const float* chunks = nullptr;
  const float* logits = nullptr;  // [rows, heads]; null: no gates
  Rows out;
  int64_t rows = 0;
  int count = 0, heads = 0, width = 0;
};

// Returns cudaErrorInvalidValue if there is nothing to merge or the width exceeds 256.
cudaError_t LaunchMergeSplits(const MergeSplits& merge, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SPLIT_ATTENTION_H_
