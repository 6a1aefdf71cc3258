// Test only: which shapes the definitions of cuDNN refuse, in place of the library. tests/ops/cudnn_plans_test.cc holds
// each answer to that of the library itself, where it is installed.
#ifndef KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_
#define KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_

#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// OK, or Unimplemented with the reason, for a device of compute capability `major`.
absl::Status Supports(const CudnnAttention& shape, int major);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_
