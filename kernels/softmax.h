// The softmax between the two products of attention, on logits in memory.
#ifndef KINORA_KERNELS_SOFTMAX_H_
#define KINORA_KERNELS_SOFTMAX_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// weights[m, i, j] = exp(l − max l) / Σ exp(l − max l) over the keys j that query first_query + i sees, with l =
// scale · logits[m, i, j] + bias[first_query + i, j]. Zero for other keys, and for all keys of a query that sees none.
//
// logits: [matrices · rows, keys] f32; weights: the same shape, f32 or bf16; f32 weights may be the logits' own
// memory. Both have rows of whole aligned vectors (stride a multiple of 8). Elements past `keys` are ignored in logits,
// and only zeros are written to them. Sums are float32, in an order that depends on `keys` alone. Minimum traffic:
// logits once, mostly twice (from the second-level cache), weights once.
struct Softmax {
  const float* logits = nullptr;
  int64_t stride = 0;
  Rows weights;
  int64_t matrices = 0, rows = 0, keys = 0;
  int64_t first_query = 0;
  float scale = 1.0f;
  const float* bias = nullptr;  // [queries, keys], of any alignment
  int64_t bias_stride = 0;
  bool causal = false;  // key position <= query position
  int64_t window = 0;   // with causal: query position - key position < window; 0: no window
};

// Returns cudaErrorInvalidValue if there is nothing to do or rows do not consist of whole aligned vectors.
cudaError_t LaunchSoftmax(const Softmax& softmax, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SOFTMAX_H_
