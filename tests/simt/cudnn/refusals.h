// Test only: which shapes the definitions of cuDNN refuse, in place of the library. tests/cudnn/cudnn_plans_test.cc
// holds each answer to that of the library itself, where it is installed.
#ifndef KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_
#define KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_

#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// OK, or Unimplemented with the reason. The same on an A100, an L40S, an H100 and a B200.
absl::Status Supports(const CudnnAttention& shape);
absl::Status Supports(const CudnnConvolution& shape);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_
