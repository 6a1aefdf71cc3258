#include "engine/ops/cuda_traits.h"

#include "engine/ops/backend_kinds.h"

namespace kinora {
namespace {

class CudaLayout : public WeightLayout {
 public:
  bool Stores(DType dtype) const override { return dtype == DType::kF32 || dtype == DType::kBF16; }
  int64_t Bytes(DType dtype, int64_t out, int64_t taps, int64_t in) const override {
    const int64_t row = taps * in * DTypeSize(dtype);
    return out * ((row + kWeightRowAlignment - 1) / kWeightRowAlignment * kWeightRowAlignment);
  }
  // Float32 and, for bf16 weights, a rounded copy: a product adds a bias of its result's dtype.
  int64_t BiasBytes(DType dtype, int64_t out) const override {
    return out * (DTypeSize(DType::kF32) + (dtype == DType::kBF16 ? DTypeSize(dtype) : 0));
  }
};

}  // namespace

const WeightLayout& CudaWeightLayout() {
  static const CudaLayout layout;
  return layout;
}

absl::StatusOr<BackendTraits> CudaTraits(const BackendOptions&) {
  return BackendTraits{.device = "cuda",
                       .weights = &CudaWeightLayout(),
                       .unified_memory = false,
                       .branches = true,
                       .workspace_bytes = 2 * (kProductWorkspaceBytes + kScratchBytes),
                       .evicts_weights = true,
                       .driver_bytes = kDriverBytes};
}

}  // namespace kinora
