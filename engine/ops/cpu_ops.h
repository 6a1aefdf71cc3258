// The CPU backend: float32, and bfloat16 with float32 sums. A row's bits depend neither on the other rows nor on the
// number of threads.
#ifndef KINORA_ENGINE_OPS_CPU_OPS_H_
#define KINORA_ENGINE_OPS_CPU_OPS_H_

#include <memory>

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/ops.h"
#include "engine/ops/thread_pool.h"
#include "engine/tensor/cpu_stream.h"

namespace kinora {

class CpuOps : public Ops {
 public:
  // Creates ops with `threads` threads that enqueue their work on `stream`. Tensor arguments must have the addresses
  // that stream.Reach returns. Fails with ResourceExhausted if the fixed workspace (about 1.1 MB per thread) cannot be
  // reserved.
  static absl::StatusOr<std::unique_ptr<CpuOps>> Create(
      int threads, std::unique_ptr<CpuStream> stream = std::make_unique<CpuStream>());

  CpuStream& stream() override { return stream_; }

  // Implements Backend::RunOnHost.
  void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task);

  absl::StatusOr<std::vector<Weight>> PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) override;
  absl::Status RewriteWeights(const WeightRows& rows, DType dtype, absl::Span<WeightStorage* const> storage) override;
  absl::Status RewriteWeights(absl::Span<const Rewriting> many) override;
  void Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) override;
  void Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 Tensor out) override;
  void AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       Tensor out) override;
  void MergeChunks(const Tensor& chunks, Tensor out) override;
  void NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                              Tensor out) override;
  void RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) override;
  void LayerNorm(const Tensor& x, float eps, Tensor out) override;
  void NormalizeRange(const Tensor& x, float scale, float eps, Tensor out) override;
  void GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) override;
  void GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) override;
  void Modulate(const Tensor& x, const ScaleShift& m, Tensor out) override;
  void ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override;
  void ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override;
  void GatedAdd(const Tensor& y, const Gate& gate, Tensor x) override;
  void NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) override;
  void SumOfSquares(const Tensor& x, Tensor out) override;
  void Activate(const Tensor& x, Activation activation, Tensor out) override;
  void Add(const Tensor& y, Tensor x) override;
  void ActivateThenMultiply(const Tensor& gate, Activation activation, const Tensor& up, Tensor out) override;
  void GateHeads(const Tensor& logits, Tensor x) override;
  void Scale(const Tensor& x, float factor, Tensor out) override;
  void Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) override;
  void Fill(float value, Tensor out) override;
  void GatherRows(const Tensor& table, const Tensor& ids, float factor, Tensor out) override;
  void Increment(Tensor counters) override;
  void TimestepEmbedding(const Tensor& t, Tensor out) override;
  void RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) override;
  void Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) override;
  void DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) override;
  void SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) override;
  void RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) override;
  void Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) override;
  void AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) override;
  void FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) override;

  void Pointwise(const Tensor& x, const PointwiseFunction& function, Tensor out) override;
  void Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) override;
  void Magnitude(const Tensor& x, Tensor out) override;
  void PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) override;
  void CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) override;
  void EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) override;

 private:
  struct ConvPlan;
  struct AttentionPlan;
  class AttentionTask;
  struct NeighbourhoodPlan;
  class NeighbourhoodTask;
  class ConvLine;
  class ConvByTaps;
  class ConvBySharedTaps;
  CpuOps(int threads, std::vector<Buffer> workspace, std::unique_ptr<CpuStream> stream);

  void Norm(const Tensor& x, const cpu::NormArgs& args, Tensor out);
  void ModulatedNorm(const Tensor& x, cpu::NormArgs::Kind kind, const ScaleShift& m, float eps, Tensor out);
  void Elementwise(cpu::ElementwiseArgs args, const Tensor& a, const Tensor* b, Tensor out);
  // Calls rows(begin, end) on pieces of [0, count), in parallel if that is worth waking threads.
  void ForRows(int64_t count, int64_t bytes_a_row, absl::FunctionRef<void(int64_t begin, int64_t end)> rows);
  double StandardDeviation(const float* x, int64_t n);
  void PackPanels(const WeightRows& rows, const void* from, int64_t begin, int64_t end, DType precision,
                  void* to) const;
  void RunMatmul(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out);
  void RunConv(const Tensor& x, const Weight& w, const ConvPlan& plan, const Tensor& out);
  template <typename Blocks>
  void RunConvBlocks(const Blocks& blocks, const Weight& w, const ConvOptions& options, const Tensor& out);
  void RunAttention(const AttentionPlan& plan);
  void RunNeighbourhood(const NeighbourhoodPlan& plan);

  const cpu::Kernels& kernels_;
  ThreadPool pool_;
  std::vector<Buffer> workspace_;  // one per thread
  const std::unique_ptr<CpuStream> owned_stream_;
  CpuStream& stream_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_OPS_H_
