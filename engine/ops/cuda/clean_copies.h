// Copies of weights from before products were added to them. Internal to the CUDA backend.
#ifndef KINORA_ENGINE_OPS_CUDA_CLEAN_COPIES_H_
#define KINORA_ENGINE_OPS_CUDA_CLEAN_COPIES_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ops/clean_weights.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "engine/tensor/tensor.h"

namespace kinora {

// All copies are enqueued on the given stream.
class CleanCopies {
 public:
  void SetMost(const CleanMemory& most) { most_ = most; }
  const CleanMemory& used() const { return used_; }

  // Copies a weight stored as `dtype` and made from rows of type `rows`, unless it has products or a copy, has lost
  // bits of its rows, or the memory is used up.
  absl::Status Keep(DType rows, DType dtype, CudaWeight& weight, cudaStream_t stream);
  // Copies rows [begin, end) of a weight with a copy from there to its matrix.
  static absl::Status Restore(const CudaWeight& weight, DType dtype, int64_t begin, int64_t end, cudaStream_t stream);
  // Copies rows [begin, end) of a weight with a copy to `sums` [end − begin, width] f32. May overwrite those rows of
  // the matrix.
  static absl::Status Widen(const CudaWeight& weight, DType dtype, int64_t begin, int64_t end, const Tensor& sums,
                            cudaStream_t stream);

 private:
  absl::StatusOr<Buffer> Take(int64_t bytes, bool on_device);

  CleanMemory most_, used_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CLEAN_COPIES_H_
