// Test only: convolutions as cuDNN computes them, on the host.
#ifndef KINORA_TESTS_SIMT_CUDNN_HOST_CONVOLUTION_H_
#define KINORA_TESTS_SIMT_CUDNN_HOST_CONVOLUTION_H_

#include "absl/types/span.h"
#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// Positions of the result along an axis of `extent`.
int64_t OutputExtent(const ConvAxis& axis, int64_t extent);

// bf16. Operands as Cudnn names them, readable by the host. Sums, bias, activation and what is added to are float32,
// rounded once.
void Convolve(const CudnnConvolution& shape, absl::Span<void* const> operands);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_HOST_CONVOLUTION_H_
