// Attention within windows of a grid, by a kernel of our own.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/neighbourhood_attention.h"

namespace kinora {
namespace {

static_assert(kernels::kMaxNeighbourhoodWidth == kMaxNeighbourhoodHeadWidth);

kernels::Extents View(const SpaceTime& s) { return {.time = s.time, .height = s.height, .width = s.width}; }

}  // namespace

void CudaOps::NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                                     Tensor out) {
  CheckNeighbourhood(q, k, v, o, out);
  if (q.rows() == 0) return;
  const kernels::NeighbourhoodAttention attention{.q = kinora::View(q),
                                                  .k = kinora::View(k),
                                                  .v = kinora::View(v),
                                                  .out = kinora::View(out),
                                                  .grid = View(o.grid),
                                                  .window = View(o.window),
                                                  .first = View(o.first),
                                                  .queries = View(o.queries),
                                                  .heads = o.heads,
                                                  .width = static_cast<int>(q.width() / o.heads),
                                                  .scale = o.scale};
  stream_->Enqueue("NeighbourhoodAttention", q,
                   [&](cudaStream_t handle) { return kernels::LaunchNeighbourhoodAttention(attention, handle); });
}

}  // namespace kinora
