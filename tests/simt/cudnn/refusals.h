// Test only: the shapes that the simulated cuDNN rejects. tests/cudnn/cudnn_plans_test.cc compares each answer with the
// installed library's.
#ifndef KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_
#define KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_

#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// Returns OK, or Unimplemented with the reason. The answers are identical for A100, L40S, H100 and B200.
absl::Status Supports(const CudnnAttention& shape);
absl::Status Supports(const CudnnConvolution& shape);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_REFUSALS_H_
