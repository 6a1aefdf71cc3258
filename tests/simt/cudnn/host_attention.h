// Test only: attention as cuDNN computes it, on the host.
#ifndef KINORA_TESTS_SIMT_CUDNN_HOST_ATTENTION_H_
#define KINORA_TESTS_SIMT_CUDNN_HOST_ATTENTION_H_

#include "absl/types/span.h"
#include "engine/ops/cuda/cudnn.h"

namespace kinora::simt {

// Operands as Cudnn names them, readable by the host. Logits and sums are float32; the weights of the values are
// rounded to bf16 first, as tensor cores take them.
void Attend(const CudnnAttention& shape, absl::Span<void* const> operands);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_HOST_ATTENTION_H_
