// Norms, modulation, gated residuals and rotations: one launch per op.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/qk_norm_rope.h"
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

kernels::NormRope View(const Tensor& x, const NormRopeParams& params, const Tensor* sum_of_squares) {
  CheckNormRope(x, params, sum_of_squares);
  const Rope& rope = params.rope;
  kernels::NormRope a{.rows = x.rows(), .width = x.width(), .x = View(x), .eps = params.eps};
  if (params.weight.defined()) {
    a.weight = params.weight.data<float>();
    a.group = params.group;
    a.full_group = params.full_group > 0 ? params.full_group : params.group;
    if (sum_of_squares != nullptr) a.sums = sum_of_squares->data<float>();
  }
  if (rope.cos.defined()) {
    KINORA_CHECK(rope.cos.contiguous() && rope.sin.contiguous()) << rope.cos.shape().ToString();
    a.cos = rope.cos.data<float>();
    a.sin = rope.sin.data<float>();
    a.table_rows = rope.cos.rows();
    a.table_width = rope.cos.width();
    a.head_width = params.head_width;
    if (rope.frame_cos.defined()) {
      KINORA_CHECK(rope.frame_sin.contiguous()) << rope.frame_sin.shape().ToString();
      a.frame_cos = rope.frame_cos.data<float>();
      a.frame_sin = rope.frame_sin.data<float>();
      a.frames = rope.frame_cos.rows();
      a.frame_width = rope.frame_cos.width();
    }
  }
  return a;
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

void CudaOps::NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) {
  const kernels::NormRope args = View(x, params, sum_of_squares);
  if (x.elements() == 0) return;
  stream_->Enqueue("NormRope", x, [&](cudaStream_t handle) { return kernels::LaunchQkNormRope(args, {}, handle); });
}

void CudaOps::QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) {
  if (q.dtype() != k.dtype() || q.elements() == 0 || k.elements() == 0) {
    return Ops::QkNormRope(q, k, q_params, k_params);
  }
  const kernels::NormRope q_args = View(q, q_params, nullptr), k_args = View(k, k_params, nullptr);
  stream_->Enqueue("QkNormRope", q,
                   [&](cudaStream_t handle) { return kernels::LaunchQkNormRope(q_args, k_args, handle); });
}

void CudaOps::QkNormRopeToBlocks(const QkvParts& parts, Tensor blocks) {
  CheckQkvBlocks(parts, blocks);
  if (blocks.elements() == 0) return;
  const int64_t width = blocks.dim(3) / 3;
  const Tensor rows = blocks.As2D();
  int64_t column = 0;
  const auto next = [&](const Tensor& x, const NormRopeParams& params, const Tensor& sums) {
    kernels::NormRope a = View(x, params, sums.defined() ? &sums : nullptr);
    const Tensor to = rows.Columns(column, column + width);
    a.to = {.data = to.raw(), .stride = to.row_stride(), .rows = blocks.dim(2), .width = width, .count = blocks.dim(1)};
    column += width;
    return a;
  };
  const kernels::NormRope q = next(parts.q, parts.q_params, parts.q_sums);
  const kernels::NormRope k = next(parts.k, parts.k_params, parts.k_sums), v = next(parts.v, {}, {});
  stream_->Enqueue("QkNormRopeToBlocks", parts.q,
                   [&](cudaStream_t handle) { return kernels::LaunchQkNormRopeToBlocks(q, k, v, handle); });
}

}  // namespace kinora
