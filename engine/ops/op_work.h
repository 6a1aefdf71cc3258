// Floating-point operations of ops, 2 per multiply-add of matrix products, attention and convolutions. Planning
// (DryOps) and traces use the same count.
#ifndef KINORA_ENGINE_OPS_OP_WORK_H_
#define KINORA_ENGINE_OPS_OP_WORK_H_

#include <algorithm>

#include "engine/base/trace.h"
#include "engine/ops/op_checks.h"

namespace kinora {

inline OpWork WorkOfProduct(int64_t m, int64_t n, int64_t k) { return {.m = m, .n = n, .k = k, .flop = 2 * m * n * k}; }

inline OpWork WorkOfMatmul(const Tensor& x, const Weight& w) { return WorkOfProduct(x.rows(), w.out(), w.in()); }

// Counts every tap of every position, padding included.
inline OpWork WorkOfConv(const Weight& w, const Tensor& out) {
  return WorkOfProduct(out.rows(), w.out(), w.taps() * w.in());
}

// Counts two products over all heads: every query times every key within key_length; a causal mask or window saves
// nothing.
inline OpWork WorkOfAttention(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  OpWork work = WorkOfProduct(q.rows(), KeysThatCount(k, options), q.width());
  work.flop *= 2;
  return work;
}

// Likewise: every query times the keys of its window.
inline OpWork WorkOfNeighbourhood(const Tensor& q, const NeighbourhoodOptions& o) {
  const int64_t keys = int64_t{std::min(o.window.time, o.grid.time)} * std::min(o.window.height, o.grid.height) *
                       std::min(o.window.width, o.grid.width);
  OpWork work = WorkOfProduct(q.rows(), keys, q.width());
  work.flop *= 2;
  return work;
}

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_OP_WORK_H_
