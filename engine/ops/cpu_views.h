// Conversion of tensors to the kernels' views. Internal to the CPU backend.
#ifndef KINORA_ENGINE_OPS_CPU_VIEWS_H_
#define KINORA_ENGINE_OPS_CPU_VIEWS_H_

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/op_params.h"

namespace kinora {

static_assert(kMaxRowWidth == cpu::kMaxRowWidth && kMaxNeighbourhoodHeadWidth == cpu::kMaxAxialWidth);

inline cpu::Type KernelType(DType dtype) {
  KINORA_CHECK(dtype == DType::kF32 || dtype == DType::kBF16) << DTypeName(dtype);
  return dtype == DType::kF32 ? cpu::kFloat32 : cpu::kBfloat16;
}
inline cpu::RowsView View(const Tensor& t) { return {t.raw(), t.row_stride(), KernelType(t.dtype())}; }
inline cpu::Act KernelAct(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return cpu::kIdentity;
    case Activation::kSilu:
      return cpu::kSiluAct;
    case Activation::kGeluTanh:
      return cpu::kGeluTanhAct;
  }
  return cpu::kIdentity;
}

// CHECK-fails unless the tables are float32, contiguous and as wide as the rows they modulate.
inline cpu::ModulationView View(const Modulation& m, int64_t width) {
  KINORA_CHECK(m.table.contiguous() && m.table.width() == width) << m.table.shape().ToString() << " on width " << width;
  KINORA_CHECK(!m.base.defined() || (m.base.contiguous() && m.base.width() == width)) << m.base.shape().ToString();
  return {.table = m.table.data<float>(),
          .base = m.base.defined() ? m.base.data<float>() : nullptr,
          .row = m.row.defined() ? m.row.data<int32_t>() : nullptr,
          .tokens = m.row.defined() ? m.row.dim(0) : 1,
          .slots = m.table.dim(1),
          .width = width};
}

inline char* At(const Tensor& t, int64_t row) {
  return static_cast<char*>(t.raw()) + row * t.row_stride() * DTypeSize(t.dtype());
}

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_VIEWS_H_
