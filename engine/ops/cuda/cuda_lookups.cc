// Lookups and rotation tables: one launch per op.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/lookups.h"
#include "kernels/rope_table.h"

namespace kinora {

// An id outside the table makes its row NaN, since a kernel cannot stop the process.
void CudaOps::GatherRows(const Tensor& table, const Tensor& ids, float factor, Tensor out) {
  CheckFloat(table);
  CheckFloat(out);
  KINORA_CHECK(ids.elements() == out.rows() && ids.contiguous() && table.width() == out.width())
      << ids.shape().ToString() << " of " << table.shape().ToString() << " to " << out.shape().ToString();
  if (out.elements() == 0) return;
  const kernels::GatherRows args{.table = View(table),
                                 .out = View(out),
                                 .ids = ids.data<int32_t>(),
                                 .table_rows = table.rows(),
                                 .rows = out.rows(),
                                 .width = out.width(),
                                 .factor = factor};
  stream_->Enqueue("GatherRows", out, [&](cudaStream_t handle) { return kernels::LaunchGatherRows(args, handle); });
}

void CudaOps::TimestepEmbedding(const Tensor& t, Tensor out) {
  KINORA_CHECK(t.elements() == out.rows() && t.contiguous() && out.width() % 2 == 0) << out.shape().ToString();
  if (out.elements() == 0) return;
  const float* const from = t.data<float>();
  float* const to = out.data<float>();
  stream_->Enqueue("TimestepEmbedding", out, [&](cudaStream_t handle) {
    return kernels::LaunchTimestepEmbedding(from, to, out.row_stride(), out.rows(), out.width() / 2, handle);
  });
}

void CudaOps::RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) {
  CheckRopeTable(angles, cos, sin);
  if (cos.elements() == 0) return;
  const kernels::RopeTable args{.fractions = angles.fractions.data<float>(),
                                .frequencies = angles.frequencies.data<float>(),
                                .cos = cos.data<float>(),
                                .sin = sin.data<float>(),
                                .tokens = cos.rows(),
                                .columns = static_cast<int>(cos.width()),
                                .first = static_cast<int>(angles.first_column),
                                .pad = static_cast<int>(angles.pad),
                                .axes = static_cast<int>(angles.fractions.dim(0)),
                                .count = static_cast<int>(angles.frequencies.elements())};
  stream_->Enqueue("RopeTable", cos, [&](cudaStream_t handle) { return kernels::LaunchRopeTable(args, handle); });
}

}  // namespace kinora
