// Conversion of tensors to the kernels' views.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_VIEWS_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_VIEWS_H_

#include "engine/ops/op_params.h"
#include "kernels/rows.h"

namespace kinora {

// CHECK-fails unless f32 or bf16.
inline kernels::Type KernelType(DType dtype) {
  KINORA_CHECK(dtype == DType::kF32 || dtype == DType::kBF16) << DTypeName(dtype);
  return dtype == DType::kF32 ? kernels::Type::kF32 : kernels::Type::kBf16;
}

inline kernels::Rows View(const Tensor& t) { return {t.raw(), t.row_stride(), KernelType(t.dtype())}; }

// For copies, which keep the bits of any four-byte type.
inline kernels::Rows WordView(const Tensor& t) {
  return t.dtype() == DType::kI32 ? kernels::Rows{t.raw(), t.row_stride(), kernels::Type::kF32} : View(t);
}

inline kernels::Modulation View(const Modulation& m) {
  const auto floats = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
  return {.table = floats(m.table),
          .base = floats(m.base),
          .row = m.row.defined() ? m.row.data<int32_t>() : nullptr,
          .tokens = m.row.defined() ? m.row.elements() : 1,
          .slots = m.table.defined() ? m.table.dim(1) : 0};
}

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_VIEWS_H_
