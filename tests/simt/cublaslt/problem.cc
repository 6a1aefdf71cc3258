#include "tests/simt/cublaslt/problem.h"

#include <limits>

namespace kinora::cublaslt {
namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();

bool Alive(const MatrixLayoutOpaque* layout) { return layout != nullptr && layout->kind == Kind::kLayout; }

bool Sound(const MatrixLayoutOpaque& l) {
  return l.rows > 0 && l.columns > 0 && l.rows <= kMaxExtent && l.columns <= kMaxExtent && l.ld >= l.rows &&
         l.batch >= 1;
}

// Whether the matrices of an output batch do not overlap.
bool Apart(const MatrixLayoutOpaque& d) {
  if (d.batch == 1) return true;
  const int64_t stride = d.batch_stride < 0 ? -d.batch_stride : d.batch_stride;
  const bool in_turn = stride >= (d.columns - 1) * d.ld + d.rows;
  const bool side_by_side = stride >= d.rows && (d.batch - 1) * stride + d.rows <= d.ld;
  return in_turn || side_by_side;
}

Status SupportedTypes(const Problem& p) {
  if (p.desc->compute != ComputeType::k32F || p.desc->scale != CUDA_R_32F) return Status::kNotSupported;
  if (p.a->type != p.b->type || p.c->type != p.d->type) return Status::kNotSupported;
  const bool floats = p.a->type == CUDA_R_32F && p.d->type == CUDA_R_32F;
  const bool halves = p.a->type == CUDA_R_16BF && (p.d->type == CUDA_R_16BF || p.d->type == CUDA_R_32F);
  if (!floats && !halves) return Status::kNotSupported;
  // The documentation lists only biases with D's type for these combinations.
  if (p.has_bias() && p.desc->bias_type >= 0 && p.desc->bias_type != p.d->type) return Status::kNotSupported;
  return Status::kSuccess;
}

}  // namespace

Status Validate(const Problem& p) {
  if (p.desc == nullptr || p.desc->kind != Kind::kDesc) return Status::kInvalidValue;
  for (const MatrixLayoutOpaque* layout : {p.a, p.b, p.c, p.d}) {
    if (!Alive(layout) || !Sound(*layout) || layout->batch != p.d->batch) return Status::kInvalidValue;
  }
  const int64_t a_rows = p.desc->a == Operation::kNone ? p.a->rows : p.a->columns;
  const int64_t b_rows = p.desc->b == Operation::kNone ? p.b->rows : p.b->columns;
  const int64_t b_columns = p.desc->b == Operation::kNone ? p.b->columns : p.b->rows;
  const bool fit = a_rows == p.m() && b_columns == p.n() && b_rows == p.k() && p.c->rows == p.m() &&
                   p.c->columns == p.n() && Apart(*p.d);
  return fit ? SupportedTypes(p) : Status::kInvalidValue;
}

uint64_t Fingerprint(const Problem& p) {
  uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&hash](auto value) { hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3ull; };
  add(p.desc->a), add(p.desc->b), add(p.desc->epilogue), add(p.desc->bias_type);
  for (const MatrixLayoutOpaque* l : {p.a, p.b, p.c, p.d}) {
    add(l->type), add(l->rows), add(l->columns), add(l->ld), add(l->batch), add(l->batch_stride);
  }
  return hash;
}

}  // namespace kinora::cublaslt
