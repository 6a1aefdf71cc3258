// Test only: attention on the host with cuDNN's rounding.
#ifndef KINORA_TESTS_SIMT_CUDNN_HOST_ATTENTION_H_
#define KINORA_TESTS_SIMT_CUDNN_HOST_ATTENTION_H_

#include "absl/types/span.h"
#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// The operands are in the order that Cudnn defines and readable by the host. Logits and sums are float32; attention
// weights are rounded to bf16 before they multiply the values, as on tensor cores.
void Attend(const CudnnAttention& shape, absl::Span<void* const> operands);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_HOST_ATTENTION_H_
