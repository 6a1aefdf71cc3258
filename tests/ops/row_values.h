// Test only: values for tests of row-wise ops, and tensors computed from definitions in double precision.
#ifndef KINORA_TESTS_OPS_ROW_VALUES_H_
#define KINORA_TESTS_OPS_ROW_VALUES_H_

#include <cmath>
#include <functional>

#include "tests/testing/golden.h"

namespace kinora {

// Values in [-2, 2] that f32 and bf16 represent exactly.
inline HostTensor Waves(DType dtype, const Shape& shape, int salt) {
  HostTensor t(dtype, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const bf16 value(2.0f * std::sin(3.14159265f * static_cast<float>(i % 9973 * 7 + salt) / 11.0f));
    if (dtype == DType::kF32) {
      t.f32()[i] = static_cast<float>(value);
    } else {
      t.tensor().data<bf16>()[i] = value;
    }
  }
  return t;
}

inline double At(const HostTensor& t, int64_t i) {
  return t.tensor().dtype() == DType::kF32 ? t.tensor().data<float>()[i]
                                           : static_cast<double>(static_cast<float>(t.tensor().data<bf16>()[i]));
}

inline double Tolerance(DType dtype) { return dtype == DType::kF32 ? 2e-6 : 4e-3; }

// Expected values of a [rows, width] tensor, f32.
inline HostTensor Expected(const Shape& shape, const std::function<double(int64_t row, int64_t column)>& f) {
  HostTensor t(DType::kF32, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) t.f32()[i] = static_cast<float>(f(i / shape[-1], i % shape[-1]));
  return t;
}

// The values of `t` as f32.
inline HostTensor Floats(const HostTensor& t) {
  return Expected({t.tensor().rows(), t.tensor().width()},
                  [&](int64_t row, int64_t column) { return At(t, row * t.tensor().width() + column); });
}

}  // namespace kinora

#endif  // KINORA_TESTS_OPS_ROW_VALUES_H_
