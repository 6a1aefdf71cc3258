// Norms, modulation and gated residuals: each one launch of the row norm kernel.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/row_norm.h"

namespace kinora {
namespace {

kernels::NormActivation KernelActivation(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return kernels::NormActivation::kNone;
    case Activation::kSilu:
      return kernels::NormActivation::kSilu;
    case Activation::kGeluTanh:
      return kernels::NormActivation::kGeluTanh;
  }
  KINORA_CHECK(false) << "activation " << static_cast<int>(activation);
  return kernels::NormActivation::kNone;
}

void Enqueue(CudaStream& stream, const char* op, const Tensor& x, kernels::RowNorm norm, const Tensor& out) {
  CheckSameShape(x, out);
  CheckRowWidth(x);
  if (x.elements() == 0) return;
  norm.rows = x.rows();
  norm.width = x.width();
  norm.x = View(x);
  norm.first.out = View(out);
  stream.Enqueue(op, x, [&](cudaStream_t handle) { return kernels::LaunchRowNorm(norm, handle); });
}

kernels::ModulatedOutput Modulated(const Tensor& x, const ScaleShift& m) {
  CheckModulation(m.modulation, m.scale_slot, x);
  CheckModulation(m.modulation, m.shift_slot, x);
  return {.modulation = View(m.modulation), .scale_slot = m.scale_slot, .shift_slot = m.shift_slot};
}

}  // namespace

void CudaOps::RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) {
  KINORA_CHECK(weight == nullptr || weight->elements() == x.width()) << weight->shape().ToString();
  Enqueue(*stream_, "RmsNorm", x,
          {.kind = kernels::NormKind::kRms,
           .eps = eps,
           .weight = weight == nullptr ? nullptr : weight->data<float>(),
           .activation = KernelActivation(activation)},
          out);
}

void CudaOps::LayerNorm(const Tensor& x, float eps, Tensor out) {
  Enqueue(*stream_, "LayerNorm", x, {.kind = kernels::NormKind::kLayer, .eps = eps}, out);
}

void CudaOps::Modulate(const Tensor& x, const ScaleShift& m, Tensor out) {
  Enqueue(*stream_, "Modulate", x, {.kind = kernels::NormKind::kNone, .first = Modulated(x, m)}, out);
}

void CudaOps::ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  Enqueue(*stream_, "ModulatedRmsNorm", x, {.kind = kernels::NormKind::kRms, .eps = eps, .first = Modulated(x, m)},
          out);
}

void CudaOps::ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  Enqueue(*stream_, "ModulatedLayerNorm", x, {.kind = kernels::NormKind::kLayer, .eps = eps, .first = Modulated(x, m)},
          out);
}

void CudaOps::GatedAdd(const Tensor& y, const Gate& gate, Tensor x) {
  CheckSameShape(y, x);
  CheckModulation(gate.modulation, gate.slot, x);
  Enqueue(*stream_, "GatedAdd", x, {.y = View(y), .gate = View(gate.modulation), .gate_slot = gate.slot, .outputs = 0},
          x);
}

}  // namespace kinora
