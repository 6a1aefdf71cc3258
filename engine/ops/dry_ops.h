// Ops that only count: they check shapes and add up floating-point operations, bytes and parameters; they compute
// nothing, and no tensor has memory. The real model code runs on them to determine what a request will cost and how
// much memory it needs (with Arena::Dry).
//
// FLOPs are 2 per multiply-add of matrix products, attention and convolutions, by the usual convention: every query
// times every key within key_length (a causal mask or window saves nothing), every tap of a convolution, padding
// included. Norms, elementwise ops and lookups count as bytes only, since memory traffic bounds them. Bytes count every
// operand once per op, read or written: the minimum memory traffic without fusion across ops.
#ifndef KINORA_ENGINE_OPS_DRY_OPS_H_
#define KINORA_ENGINE_OPS_DRY_OPS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/ops/cpu_weight.h"
#include "engine/ops/ops.h"

namespace kinora {

enum class OpKind : uint8_t { kMatmul, kAttention, kConv, kNorm, kElementwise, kLookup, kCopy };
inline constexpr int kOpKinds = 7;

struct OpCost {
  int64_t calls = 0;
  double flops = 0;  // the total of a long clip exceeds 2^63
  int64_t bytes = 0;
  friend bool operator==(const OpCost&, const OpCost&) = default;
};

struct Cost {
  std::array<OpCost, kOpKinds> kinds{};

  const OpCost& of(OpKind kind) const { return kinds[static_cast<int>(kind)]; }
  int64_t calls() const { return total().calls; }
  double flops() const { return total().flops; }
  int64_t bytes() const { return total().bytes; }
  void Add(OpKind kind, double flops, int64_t bytes);
  Cost& operator+=(const Cost& other);
  friend bool operator==(const Cost&, const Cost&) = default;

 private:
  OpCost total() const;
};

// Is told what a DryStream counts, and where its branches begin and end. Captured work is told at the capture.
class DryListener {
 public:
  virtual ~DryListener() = default;
  virtual void OnCount(OpKind kind, double flops, int64_t bytes) = 0;
  virtual void OnFork() = 0;
  virtual void OnJoin() = 0;
};

// A stream that runs nothing. It counts copies; captured work is counted at each Replay, not at the capture.
class DryStream : public Stream {
 public:
  explicit DryStream(bool unified_memory = true) : unified_memory_(unified_memory) {}

  void Copy(const Tensor& from, Tensor to) override;
  void CopyFromHost(const void* host, Tensor to) override;
  void CopyToHost(const Tensor& from, void* host) override;
  Tensor HostSide(const Tensor& device, ArenaScope& host) const override;
  absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) override;
  bool capturing() const override { return recording_ != nullptr; }
  bool failed() const override { return !failure_.ok(); }
  absl::Status Synchronize() override;
  absl::Status WaitFor(int64_t mark) override;
  void Fork(Stream& branch) override;
  void Join(Stream& branch) override;
  void Fail(absl::Status status) override;

  void SetListener(DryListener* listener) { listener_ = listener; }  // null: none; it must outlive its use
  void Count(OpKind kind, double flops, int64_t bytes);
  const Cost& cost() const { return cost_; }
  void ResetCost() { cost_ = {}; }

 private:
  friend class DryGraph;
  const bool unified_memory_;
  Cost cost_;
  Cost* recording_ = nullptr;
  DryListener* listener_ = nullptr;
  absl::Status failure_;
};

class DryOps : public Ops {
 public:
  // Counts for a backend that stores weights in `layout`. unified_memory: its device memory is host memory.
  explicit DryOps(const WeightLayout& layout = CpuWeightLayout(), bool unified_memory = true)
      : layout_(layout), stream_(unified_memory) {}

  DryStream& stream() override { return stream_; }
  bool dry() const override { return true; }

  // Returns the cost of the ops since construction or ResetCost; loading weights is not included.
  const Cost& cost() const { return stream_.cost(); }
  void ResetCost() { stream_.ResetCost(); }
  int64_t parameters() const { return parameters_; }      // of all prepared weights, with biases, without padding
  int64_t weight_bytes() const { return weight_bytes_; }  // on the device, in `layout`

  absl::StatusOr<std::vector<Weight>> PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) override;
  using WeightOps::RewriteWeights;
  absl::Status RewriteWeights(const WeightRows& rows, DType dtype, absl::Span<WeightStorage* const> storage) override;

  absl::Status EvictWeight(const Weight& w) override;
  void FetchWeight(const Weight& w, const Tensor& memory) override;

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
  const WeightLayout& layout_;
  DryStream stream_;
  int64_t parameters_ = 0;
  int64_t weight_bytes_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_DRY_OPS_H_
