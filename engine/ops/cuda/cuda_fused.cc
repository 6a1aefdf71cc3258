// Residual updates with the norms after them: one launch of the row norm kernel or, for a product, one per block of
// rows that fits the scratch memory.
#include <algorithm>

#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/row_norm.h"

namespace kinora {
namespace {

// Sets `output` to the part of `normed` for rows [begin, …) of the residual. Returns false if there is none.
bool OutputFrom(const NormedOutput& normed, int64_t begin, kernels::ModulatedOutput& output) {
  if (!normed.out.defined() || normed.out.rows() <= begin) return false;
  const ScaleShift& m = normed.modulation;
  output = {.out = View(normed.out.As2D().Rows(begin, normed.out.rows())),
            .rows = normed.out.rows() - begin,
            .modulation = View(m.modulation),
            .scale_slot = m.scale_slot,
            .shift_slot = m.shift_slot};
  return true;
}

// Returns the kernel's arguments for rows [begin, end) of the residual. y: the product for the first of these rows, or
// undefined.
kernels::RowNorm RowsOf(const ResidualUpdate& update, const Tensor& y, int64_t begin, int64_t end) {
  kernels::RowNorm norm{.rows = end - begin,
                        .width = update.x.width(),
                        .x = View(update.x.As2D().Rows(begin, end)),
                        .first_row = begin,
                        .gate = View(update.gate.modulation),
                        .gate_slot = update.gate.slot,
                        .eps = update.eps};
  if (y.defined()) {
    norm.y = View(y);
    norm.y_rows = y.rows();
  }
  norm.outputs = 0;
  for (const NormedOutput& normed : update.normed) {
    if (OutputFrom(normed, begin, norm.outputs == 0 ? norm.first : norm.second)) ++norm.outputs;
  }
  return norm;
}

// Returns the number of rows of the residual that y or an output covers.
int64_t RowsTouched(int64_t y_rows, const ResidualUpdate& update) {
  int64_t rows = y_rows;
  for (const NormedOutput& normed : update.normed) {
    if (normed.out.defined()) rows = std::max(rows, normed.out.rows());
  }
  return rows;
}

// Whether one kernel can write both outputs: they must have one type.
bool OneKernelWrites(const NormedOutputs& normed) {
  return !normed[0].out.defined() || !normed[1].out.defined() || normed[0].out.dtype() == normed[1].out.dtype();
}

}  // namespace

void CudaOps::AddThenNorms(const Tensor& y, const ResidualUpdate& update) {
  CheckResidualUpdate(y.rows(), y.width(), update);
  const int64_t rows = RowsTouched(y.rows(), update);
  if (!OneKernelWrites(update.normed)) {
    Ops::AddThenNorms(y, update);
    return;
  }
  if (rows == 0) return;
  stream_->Enqueue("AddThenNorms", y, [&](cudaStream_t stream) {
    return kernels::LaunchRowNorm(RowsOf(update, y.As2D(), 0, rows), stream);
  });
}

// The product is rounded to the residual's dtype before it is added, as between two layers.
void CudaOps::MatmulThenNorms(const Tensor& x, const Weight& w, const ResidualUpdate& update) {
  CheckResidualUpdate(x.rows(), w.out(), update);
  const int64_t rows = RowsTouched(x.rows(), update), row_bytes = w.out() * DTypeSize(update.x.dtype());
  const int64_t block = std::min(x.rows(), scratch_.bytes() / row_bytes);
  if (x.elements() == 0 || !OneKernelWrites(update.normed)) {
    Ops::MatmulThenNorms(x, w, update);
    return;
  }
  const Tensor product = Scratch(scratch_).Take(update.x.dtype(), {block, w.out()});
  if (!IsOneProduct(x, w, product)) {  // it needs the scratch memory itself
    Ops::MatmulThenNorms(x, w, update);
    return;
  }
  for (int64_t begin = 0, end; begin < x.rows(); begin = end) {
    end = std::min(x.rows(), begin + block);
    const Tensor y = product.Rows(0, end - begin);
    Matmul(x.As2D().Rows(begin, end), w, {}, y);
    stream_->Enqueue("MatmulThenNorms", x, [&](cudaStream_t stream) {
      return kernels::LaunchRowNorm(RowsOf(update, y, begin, end == x.rows() ? rows : end), stream);
    });
  }
}

}  // namespace kinora
