// Linear layers: one product of the library if its epilogue can do the rest; otherwise blocks of rows that fit the
// scratch memory, each a product and a kernel.
#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "engine/ops/op_checks.h"
#include "kernels/copy_rows.h"
#include "kernels/finish_product.h"
#include "kernels/row_norm.h"

namespace kinora {
namespace {

kernels::NormActivation KernelActivation(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels::NormActivation::kSilu;
    case Activation::kGeluTanh:
      return kernels::NormActivation::kGeluTanh;
    case Activation::kNone:
      break;
  }
  return kernels::NormActivation::kNone;
}

// Returns the product x · wᵀ alone. x must have the weight's dtype.
Product ProductOf(const Tensor& x, const Weight& w, const Tensor& out) {
  const CudaWeight& stored = CudaWeight::Of(w);
  return {.m = x.rows(),
          .n = w.out(),
          .k = w.in(),
          .a = {.data = x.raw(), .dtype = x.dtype(), .stride = x.row_stride()},
          .b = {.data = stored.matrix.data(), .dtype = w.dtype(), .stride = stored.stride, .transposed = true},
          .d = {.data = out.raw(), .dtype = out.dtype(), .stride = out.row_stride()}};
}

const void* BiasFor(const Weight& w, DType out) { return CudaWeight::Of(w).BiasFor(out); }

// Returns the product with bias, activation and sum in the library's epilogue.
Product Fused(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out) {
  Product product = ProductOf(x, w, out);
  product.bias = BiasFor(w, out.dtype());
  product.gelu = options.activation == Activation::kGeluTanh;
  product.add = options.accumulate == Accumulate::kAdd;
  return product;
}

// Whether the library may have an epilogue for these options.
bool MayFuse(const Weight& w, const MatmulOptions& options, DType out) {
  if (w.dtype() == DType::kF32 && out != DType::kF32) return false;
  if (options.accumulate == Accumulate::kGated || options.activation == Activation::kSilu) return false;
  return options.accumulate == Accumulate::kNo || options.activation == Activation::kNone;
}

// Whether rows share elements, like the frames of a sound; the library does not support such matrices.
bool Overlap(const Tensor& x) { return x.rows() > 1 && x.row_stride() < x.width(); }

}  // namespace

void CudaOps::Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) {
  CheckMatmul(x, w, options, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("Matmul", x, [&](cudaStream_t) { return RunMatmul(x.As2D(), w, options, out.As2D()); });
}

bool CudaOps::IsOneProduct(const Tensor& x, const Weight& w, const Tensor& out) const {
  return x.dtype() == w.dtype() && !Overlap(x) && MayFuse(w, {}, out.dtype()) &&
         products_->Supports(Fused(x, w, {}, out));
}

absl::Status CudaOps::RunMatmul(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out) {
  if (x.dtype() == w.dtype() && !Overlap(x) && MayFuse(w, options, out.dtype())) {
    const Product fused = Fused(x, w, options, out);
    if (products_->Supports(fused)) return RunProduct(fused);
  }
  const int64_t row_bytes = w.in() * DTypeSize(w.dtype()) + w.out() * DTypeSize(DType::kF32);
  constexpr int64_t kPadding = 1024;  // between the pieces
  int64_t block = std::max<int64_t>(1, (scratch_.bytes() - kPadding) / row_bytes);
  const bool gated = options.accumulate == Accumulate::kGated;
  const Tensor& row = options.gate.modulation.row;
  const int64_t period = gated && row.defined() ? row.elements() : 1;  // period of the gate's rows
  if (block > period) block = block / period * period;
  for (int64_t begin = 0, end; begin < x.rows(); begin = end) {
    end = std::min(x.rows(), begin + block);
    if (block < period) end = std::min(end, (begin / period + 1) * period);
    KINORA_RETURN_IF_ERROR(MatmulRows(x.Rows(begin, end), w, options, begin % period, out.Rows(begin, end)));
  }
  return absl::OkStatus();
}

absl::Status CudaOps::MatmulRows(const Tensor& rows, const Weight& w, const MatmulOptions& options, int64_t gate_row,
                                 const Tensor& out) {
  Scratch scratch(scratch_);
  Tensor x = rows;
  if (x.dtype() != w.dtype() || Overlap(x)) {
    x = scratch.Take(w.dtype(), rows.shape());
    KINORA_RETURN_IF_ERROR(CudaStatus(
        kernels::LaunchCopyRows(View(rows), View(x), rows.rows(), rows.width(), stream_->handle()), "a conversion"));
  }
  if (options.accumulate == Accumulate::kGated) return AddGated(x, w, options, gate_row, scratch, out);
  return Multiply(x, w, options, scratch, out);
}

absl::Status CudaOps::Multiply(const Tensor& x, const Weight& w, const MatmulOptions& options, Scratch& scratch,
                               const Tensor& out) {
  cudaStream_t const stream = stream_->handle();
  if (MayFuse(w, options, out.dtype())) {
    const Product fused = Fused(x, w, options, out);
    if (products_->Supports(fused)) return RunProduct(fused);
  }
  const Tensor y = scratch.Take(DType::kF32, out.shape());
  KINORA_RETURN_IF_ERROR(RunProduct(ProductOf(x, w, y)));
  return CudaStatus(kernels::LaunchFinishProduct({.rows = out.rows(),
                                                  .width = out.width(),
                                                  .y = View(y),
                                                  .bias = static_cast<const float*>(BiasFor(w, DType::kF32)),
                                                  .activation = KernelActivation(options.activation),
                                                  .add = options.accumulate == Accumulate::kAdd,
                                                  .out = View(out)},
                                                 stream),
                    "an activation");
}

// out += gate ⊙ y, rounded once.
absl::Status CudaOps::AddGated(const Tensor& x, const Weight& w, const MatmulOptions& options, int64_t gate_row,
                               Scratch& scratch, const Tensor& out) {
  cudaStream_t const stream = stream_->handle();
  const MatmulOptions plain{.activation = options.activation};
  const Tensor y = scratch.Take(DType::kF32, out.shape());
  if (const Product whole = Fused(x, w, plain, y); MayFuse(w, plain, DType::kF32) && products_->Supports(whole)) {
    KINORA_RETURN_IF_ERROR(RunProduct(whole));
  } else {
    KINORA_RETURN_IF_ERROR(RunProduct(ProductOf(x, w, y)));
    KINORA_RETURN_IF_ERROR(
        CudaStatus(kernels::LaunchFinishProduct({.rows = y.rows(),
                                                 .width = y.width(),
                                                 .y = View(y),
                                                 .bias = static_cast<const float*>(BiasFor(w, DType::kF32)),
                                                 .activation = KernelActivation(options.activation),
                                                 .out = View(y)},
                                                stream),
                   "an activation"));
  }
  kernels::Modulation gate = View(options.gate.modulation);
  if (gate.row != nullptr) {
    gate.row += gate_row;
    gate.tokens -= gate_row;
  }
  return CudaStatus(kernels::LaunchRowNorm({.rows = out.rows(),
                                            .width = out.width(),
                                            .x = View(out),
                                            .y = View(y),
                                            .gate = gate,
                                            .gate_slot = options.gate.slot,
                                            .outputs = 0},
                                           stream),
                    "a gated sum");
}

}  // namespace kinora
