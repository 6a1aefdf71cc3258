// How weights lie on the device, and their way there.
#include "engine/ops/cuda/cuda_weight.h"

namespace kinora {
namespace {

constexpr int64_t kRowAlignment = 16;

class CudaLayout : public WeightLayout {
 public:
  bool Stores(DType dtype) const override { return dtype == DType::kF32 || dtype == DType::kBF16; }
  int64_t Bytes(DType dtype, int64_t out, int64_t taps, int64_t in) const override {
    const int64_t row = taps * in * DTypeSize(dtype);
    return out * ((row + kRowAlignment - 1) / kRowAlignment * kRowAlignment);
  }
};

}  // namespace

const WeightLayout& CudaWeightLayout() {
  static const CudaLayout layout;
  return layout;
}

}  // namespace kinora
