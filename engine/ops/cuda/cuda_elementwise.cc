// Elementwise ops: one launch of the elementwise kernel per op.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/elementwise.h"
#include "kernels/join_heads.h"

namespace kinora {
namespace {

using Kind = kernels::ElementwiseKind;

void Enqueue(CudaStream& stream, const char* op, const Tensor& x, kernels::Elementwise args, const Tensor& out) {
  CheckSameShape(x, out);
  if (x.elements() == 0) return;
  args.rows = out.rows();
  args.width = out.width();
  args.a = View(x);
  args.out = View(out);
  stream.Enqueue(op, out, [&](cudaStream_t handle) { return kernels::LaunchElementwise(args, handle); });
}

Kind KernelKind(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return Kind::kScale;  // by 1
    case Activation::kSilu:
      return Kind::kSilu;
    case Activation::kGeluTanh:
      return Kind::kGeluTanh;
  }
  KINORA_CHECK(false) << "activation " << static_cast<int>(activation);
  return Kind::kScale;
}

}  // namespace

void CudaOps::Activate(const Tensor& x, Activation activation, Tensor out) {
  Enqueue(*stream_, "Activate", x, {.kind = KernelKind(activation)}, out);
}

void CudaOps::Add(const Tensor& y, Tensor x) {
  CheckSameShape(y, x);
  Enqueue(*stream_, "Add", x, {.kind = Kind::kAdd, .b = View(y)}, x);
}

void CudaOps::ActivateThenMultiply(const Tensor& gate, Activation activation, const Tensor& up, Tensor out) {
  CheckSameShape(gate, up);
  KINORA_CHECK(activation != Activation::kNone) << "without an activation";
  const Kind kind = activation == Activation::kSilu ? Kind::kSiluMultiply : Kind::kGeluTanhMultiply;
  Enqueue(*stream_, "ActivateThenMultiply", gate, {.kind = kind, .b = View(up)}, out);
}

void CudaOps::GateHeads(const Tensor& logits, Tensor x) {
  KINORA_CHECK(logits.rows() == x.rows() && x.width() % logits.width() == 0) << logits.shape().ToString();
  CheckRowWidth(x);
  Enqueue(*stream_, "GateHeads", x,
          {.kind = Kind::kGateHeads, .b = View(logits), .head_width = x.width() / logits.width()}, x);
}

void CudaOps::ReplaceRowsThenGateHeads(const Tensor& values, int64_t first, const Tensor& logits, Tensor x) {
  KINORA_CHECK(logits.rows() == x.rows() && x.width() % logits.width() == 0) << logits.shape().ToString();
  KINORA_CHECK(values.dtype() == x.dtype() && values.width() == x.width() && first >= 0 &&
               first + values.rows() <= x.rows())
      << values.shape().ToString() << " from row " << first << " on of " << x.shape().ToString();
  CheckRowWidth(x);
  Enqueue(*stream_, "ReplaceRowsThenGateHeads", x,
          {.kind = Kind::kGateHeads,
           .b = View(logits),
           .head_width = x.width() / logits.width(),
           .replacement = View(values),
           .first = first,
           .end = first + values.rows()},
          x);
}

void CudaOps::JoinBlocksThenGateHeads(const HeadBlocks& from, const Tensor* logits, Tensor x) {
  CheckHeadBlocks(from, logits, x);
  if (x.elements() == 0) return;
  const Tensor &blocks = from.blocks, &values = from.values;
  kernels::JoinHeads args{.rows = x.rows(),
                          .width = x.width(),
                          .out = View(x),
                          .blocks = {.data = blocks.raw(),
                                     .stride = blocks.dim(3),
                                     .rows = blocks.dim(2),
                                     .width = blocks.dim(3),
                                     .count = blocks.dim(1)},
                          .first_block = from.first_block,
                          .block_rows = blocks.dim(0) * blocks.dim(2)};
  if (values.defined()) {
    args.values = View(values);
    args.first_value = from.first_value;
    args.value_rows = values.rows();
  }
  if (logits != nullptr) {
    args.logits = View(*logits);
    args.head_width = x.width() / logits->width();
  }
  stream_->Enqueue("JoinBlocksThenGateHeads", x,
                   [&](cudaStream_t handle) { return kernels::LaunchJoinHeads(args, handle); });
}

void CudaOps::Scale(const Tensor& x, float factor, Tensor out) {
  Enqueue(*stream_, "Scale", x, {.kind = Kind::kScale, .factor = factor}, out);
}

void CudaOps::Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) {
  KINORA_CHECK(scale.elements() == x.width() && shift.elements() == x.width()) << scale.shape().ToString();
  Enqueue(*stream_, "Affine", x, {.kind = Kind::kAffine, .scale = scale.data<float>(), .shift = shift.data<float>()},
          out);
}

void CudaOps::Fill(float value, Tensor out) {
  Enqueue(*stream_, "Fill", out, {.kind = Kind::kFill, .factor = value}, out);
}

}  // namespace kinora
