// Elementwise activations, sums, products, scalings and fills of rows, in one pass.
#ifndef KINORA_KERNELS_ELEMENTWISE_H_
#define KINORA_KERNELS_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

enum class ElementwiseKind : uint8_t {
  kFill,              // factor
  kScale,             // a · factor
  kSilu,              // a · sigmoid(a)
  kGeluTanh,          // gelu(a), approximated by tanh
  kAffine,            // a · scale[column] + shift[column]
  kAdd,               // a + b
  kSiluMultiply,      // silu(a) · b
  kGeluTanhMultiply,  // gelu(a) · b
  kGateHeads,         // a · 2·sigmoid(b[row, column / head_width]); b: [rows, width / head_width]
};

// out = kind(a, b), float32 inside, rounded once. out may be a or b, but must not overlap them otherwise. Minimum
// traffic: each of a, b and out once.
struct Elementwise {
  ElementwiseKind kind = ElementwiseKind::kScale;
  int64_t rows = 0, width = 0;
  Rows a{};  // unless kFill
  Rows b{};  // kAdd, kSiluMultiply, kGeluTanhMultiply, kGateHeads
  Rows out{};
  float factor = 1.0f;
  const float *scale = nullptr, *shift = nullptr;  // [width]
  int64_t head_width = 0;
  // kGateHeads: replaces rows [first, end) of a, none if both are 0. Of a's type; must not overlap out.
  Rows replacement{};
  int64_t first = 0, end = 0;
};

// Returns cudaErrorInvalidValue if there are no rows or columns, an operand is missing or has an invalid type, or heads
// do not fill the width.
cudaError_t LaunchElementwise(const Elementwise& args, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_ELEMENTWISE_H_
