// Test only: convolutions on the host with cuDNN's rounding.
#ifndef KINORA_TESTS_SIMT_CUDNN_HOST_CONVOLUTION_H_
#define KINORA_TESTS_SIMT_CUDNN_HOST_CONVOLUTION_H_

#include "absl/types/span.h"
#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// Returns the size of the result along an axis of `extent`.
int64_t OutputExtent(const ConvAxis& axis, int64_t extent);

// The operands are bf16, in the order that Cudnn defines, and readable by the host. Sums, bias, activation and addition
// are float32; the result is rounded once.
void Convolve(const CudnnConvolution& shape, absl::Span<void* const> operands);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_HOST_CONVOLUTION_H_
