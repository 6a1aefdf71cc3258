#include "tests/testing/op_values.h"

#include <random>

namespace kinora {

HostTensor Random(DType dtype, const Shape& shape, int seed, float scale) {
  HostTensor t(dtype, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    if (dtype == DType::kF32) {
      t.f32()[i] = normal(random);
    } else {
      t.tensor().data<bf16>()[i] = bf16(normal(random));
    }
  }
  return t;
}

double At(const Tensor& t, int64_t row, int64_t column) {
  const int64_t i = row * t.row_stride() + column;
  return t.dtype() == DType::kF32 ? t.data<float>()[i] : static_cast<double>(static_cast<float>(t.data<bf16>()[i]));
}

HostTensor Behind(const HostTensor& whole, int64_t gap) {
  const int64_t width = whole.tensor().width() - gap;
  HostTensor part(DType::kF32, {whole.tensor().rows(), width});
  for (int64_t i = 0; i < part.tensor().elements(); ++i) {
    part.f32()[i] = static_cast<float>(At(whole.tensor(), i / width, gap + i % width));
  }
  return part;
}

}  // namespace kinora
