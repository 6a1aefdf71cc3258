#include "engine/ops/dry_ops.h"

#include <utility>

#include "engine/ops/op_checks.h"
#include "engine/ops/op_work.h"

namespace kinora {
namespace {

int64_t Bytes(const Tensor& t) { return t.defined() ? t.bytes() : 0; }
int64_t Bytes(const Modulation& m) { return Bytes(m.table) + Bytes(m.base) + Bytes(m.row); }

// An op that adds to its output reads it first.
int64_t Written(const Tensor& out, Accumulate accumulate) {
  return accumulate == Accumulate::kNo ? out.bytes() : 2 * out.bytes();
}

class DryWeight : public WeightStorage {
 public:
  explicit DryWeight(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

}  // namespace

void Cost::Add(OpKind kind, double flops, int64_t bytes) {
  OpCost& cost = kinds[static_cast<int>(kind)];
  ++cost.calls;
  cost.flops += flops;
  cost.bytes += bytes;
}

Cost& Cost::operator+=(const Cost& other) {
  for (int i = 0; i < kOpKinds; ++i) {
    kinds[i].calls += other.kinds[i].calls;
    kinds[i].flops += other.kinds[i].flops;
    kinds[i].bytes += other.kinds[i].bytes;
  }
  return *this;
}

OpCost Cost::total() const {
  OpCost sum;
  for (const OpCost& kind : kinds) {
    sum.calls += kind.calls;
    sum.flops += kind.flops;
    sum.bytes += kind.bytes;
  }
  return sum;
}

class DryGraph : public Graph {
 public:
  DryGraph(DryStream& stream, const Cost& cost) : stream_(stream), cost_(cost) {}
  void Replay() override { stream_.cost_ += cost_; }

 private:
  DryStream& stream_;
  const Cost cost_;
};

void DryStream::Count(OpKind kind, double flops, int64_t bytes) {
  (recording_ != nullptr ? *recording_ : cost_).Add(kind, flops, bytes);
  if (listener_ != nullptr) listener_->OnCount(kind, flops, bytes);
}

void DryStream::Fork(Stream&) {
  if (listener_ != nullptr) listener_->OnFork();
}

void DryStream::Join(Stream&) {
  if (listener_ != nullptr) listener_->OnJoin();
}

void DryStream::Copy(const Tensor& from, Tensor to) {
  KINORA_CHECK(from.elements() == to.elements()) << from.shape().ToString() << " to " << to.shape().ToString();
  KINORA_CHECK(from.width() == to.width() || (from.contiguous() && to.contiguous()))
      << from.shape().ToString() << " to " << to.shape().ToString();
  Count(OpKind::kCopy, 0, from.bytes() + to.bytes());
}

void DryStream::CopyFromHost(const void*, Tensor to) {
  KINORA_CHECK(to.contiguous()) << to.shape().ToString();
  if (capturing()) Fail(absl::FailedPreconditionError("host memory read inside a capture"));
  Count(OpKind::kCopy, 0, to.bytes());
}

void DryStream::CopyToHost(const Tensor& from, void*) {
  KINORA_CHECK(from.contiguous()) << from.shape().ToString();
  if (capturing()) Fail(absl::FailedPreconditionError("host memory written inside a capture"));
  Count(OpKind::kCopy, 0, from.bytes());
}

absl::StatusOr<std::unique_ptr<Graph>> DryStream::Capture(std::function<void()> body) {
  if (capturing()) return absl::FailedPreconditionError("a capture is already in progress on this stream");
  if (!failure_.ok()) return failure_;
  Cost recorded;
  recording_ = &recorded;
  body();
  recording_ = nullptr;
  if (!failure_.ok()) return std::exchange(failure_, absl::OkStatus());
  return std::make_unique<DryGraph>(*this, recorded);
}

absl::Status DryStream::Synchronize() {
  if (capturing()) {
    Fail(absl::FailedPreconditionError("Synchronize inside a capture"));
    return failure_;
  }
  return std::exchange(failure_, absl::OkStatus());
}

absl::Status DryStream::WaitFor(int64_t) { return failure_; }

void DryStream::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

Tensor DryStream::HostSide(const Tensor& device, ArenaScope& host) const {
  KINORA_CHECK(device.contiguous()) << device.shape().ToString();
  return unified_memory_ ? device : host.Alloc(device.dtype(), device.shape());
}

absl::StatusOr<std::vector<Weight>> DryOps::PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) {
  KINORA_CHECK(layout_.Stores(dtype)) << DTypeName(dtype);
  if (bias != nullptr) KINORA_CHECK_EQ(bias->elements(), rows.out);
  const int64_t bytes = layout_.Bytes(dtype, rows.out, rows.taps, rows.in);
  std::vector<Weight> weights;
  weights.reserve(rows.count);
  for (int n = 0; n < rows.count; ++n) {
    const bool has_bias = n == 0 && bias != nullptr;
    const int64_t bias_bytes = has_bias ? layout_.BiasBytes(dtype, rows.out) : 0;
    weights.emplace_back(dtype, rows.out, rows.taps, rows.in, has_bias,
                         std::make_shared<DryWeight>(bytes + bias_bytes));
    parameters_ += weights.back().parameters();
    weight_bytes_ += weights.back().bytes();
  }
  return weights;
}

absl::Status DryOps::RewriteWeights(const WeightRows&, DType, absl::Span<WeightStorage* const>) {
  return absl::OkStatus();
}

absl::Status DryOps::EvictWeight(const Weight& w) {
  weight_bytes_ -= w.bytes();
  return absl::OkStatus();
}

void DryOps::FetchWeight(const Weight& w, const Tensor& memory) {
  KINORA_CHECK_EQ(memory.bytes(), w.bytes());
  stream_.Count(OpKind::kCopy, 0, memory.bytes());
}

void DryOps::Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) {
  CheckMatmul(x, w, options, out);
  const int64_t gate = options.accumulate == Accumulate::kGated ? Bytes(options.gate.modulation) : 0;
  stream_.Count(OpKind::kMatmul, WorkOfMatmul(x, w).flop,
                x.bytes() + w.bytes() + gate + Written(out, options.accumulate));
}

void DryOps::Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, Tensor out) {
  CheckAttention(q, k, v, options);
  CheckSameShape(q, out);
  stream_.Count(OpKind::kAttention, WorkOfAttention(q, k, options).flop,
                q.bytes() + k.bytes() + v.bytes() + Bytes(options.bias) + out.bytes());
}

void DryOps::AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                             Tensor out) {
  CheckAttention(q, k, v, options);
  const Shape& s = out.shape();
  KINORA_CHECK(s.rank() == 4 && out.dtype() == DType::kF32 && s[1] == q.rows() && s[2] == options.heads &&
               s[3] == q.width() / options.heads + 2)
      << s.ToString() << " for " << q.shape().ToString();
  KINORA_CHECK(k.rows() / options.kv_batches % s[0] == 0) << k.shape().ToString() << " in " << s[0] << " chunks";
  stream_.Count(OpKind::kAttention, WorkOfAttention(q, k, options).flop,
                q.bytes() + k.bytes() + v.bytes() + Bytes(options.bias) + out.bytes());
}

void DryOps::MergeChunks(const Tensor& chunks, Tensor out) {
  const Shape& s = chunks.shape();
  KINORA_CHECK(s.rank() == 4 && chunks.dtype() == DType::kF32 && s[1] == out.rows() && s[2] * (s[3] - 2) == out.width())
      << s.ToString() << " to " << out.shape().ToString();
  CheckFloat(out);
  stream_.Count(OpKind::kElementwise, 0, chunks.bytes() + out.bytes());
}

void DryOps::NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                                    Tensor out) {
  CheckNeighbourhood(q, k, v, o, out);
  stream_.Count(OpKind::kAttention, WorkOfNeighbourhood(q, o).flop, q.bytes() + k.bytes() + v.bytes() + out.bytes());
}

void DryOps::RmsNorm(const Tensor& x, const Tensor* weight, float /*eps*/, Activation /*activation*/, Tensor out) {
  CheckSameShape(x, out);
  CheckRowWidth(x);
  if (weight != nullptr) KINORA_CHECK_EQ(weight->elements(), x.width());
  stream_.Count(OpKind::kNorm, 0, x.bytes() + (weight != nullptr ? weight->bytes() : 0) + out.bytes());
}

void DryOps::LayerNorm(const Tensor& x, float /*eps*/, Tensor out) {
  CheckSameShape(x, out);
  CheckRowWidth(x);
  stream_.Count(OpKind::kNorm, 0, x.bytes() + out.bytes());
}

void DryOps::NormalizeRange(const Tensor& x, float /*scale*/, float /*eps*/, Tensor out) {
  CheckSameShape(x, out);
  stream_.Count(OpKind::kNorm, 0, 2 * x.bytes() + out.bytes());
}

void DryOps::GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) {
  CheckGroupNorm(x, params, /*residual=*/nullptr, out);
  stream_.Count(OpKind::kNorm, 0, 2 * x.bytes() + params.weight.bytes() + params.bias.bytes() + out.bytes());
}

void DryOps::GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) {
  CheckGroupNorm(x, params, residual, out);
  stream_.Count(OpKind::kNorm, 0,
                2 * x.bytes() + params.weight.bytes() + params.bias.bytes() +
                    (residual != nullptr ? residual->bytes() : 0) + out.bytes());
}

void DryOps::Modulate(const Tensor& x, const ScaleShift& m, Tensor out) {
  CheckSameShape(x, out);
  CheckModulation(m.modulation, m.scale_slot, x);
  CheckModulation(m.modulation, m.shift_slot, x);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + Bytes(m.modulation) + out.bytes());
}

void DryOps::ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float /*eps*/, Tensor out) {
  CheckSameShape(x, out);
  CheckModulation(m.modulation, m.scale_slot, x);
  CheckModulation(m.modulation, m.shift_slot, x);
  stream_.Count(OpKind::kNorm, 0, x.bytes() + Bytes(m.modulation) + out.bytes());
}

void DryOps::ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  DryOps::ModulatedRmsNorm(x, m, eps, out);
}

void DryOps::GatedAdd(const Tensor& y, const Gate& gate, Tensor x) {
  CheckSameShape(y, x);
  CheckModulation(gate.modulation, gate.slot, x);
  stream_.Count(OpKind::kElementwise, 0, y.bytes() + Bytes(gate.modulation) + 2 * x.bytes());
}

void DryOps::NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) {
  CheckNormRope(x, params, sum_of_squares);
  stream_.Count(OpKind::kNorm, 0,
                2 * x.bytes() + Bytes(params.weight) + Bytes(params.rope.cos) + Bytes(params.rope.sin) +
                    Bytes(params.rope.frame_cos) + Bytes(params.rope.frame_sin) +
                    (sum_of_squares != nullptr ? sum_of_squares->bytes() : 0));
}

void DryOps::SumOfSquares(const Tensor& x, Tensor out) {
  CheckFloat(x);
  CheckRowWidth(x);
  KINORA_CHECK(out.dtype() == DType::kF32 && out.elements() == x.rows())
      << x.shape().ToString() << " to " << out.shape().ToString();
  stream_.Count(OpKind::kNorm, 0, x.bytes() + out.bytes());
}

void DryOps::Activate(const Tensor& x, Activation /*activation*/, Tensor out) {
  CheckSameShape(x, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + out.bytes());
}

void DryOps::Add(const Tensor& y, Tensor x) {
  CheckSameShape(y, x);
  stream_.Count(OpKind::kElementwise, 0, y.bytes() + 2 * x.bytes());
}

void DryOps::ActivateThenMultiply(const Tensor& gate, Activation /*activation*/, const Tensor& up, Tensor out) {
  CheckSameShape(gate, up);
  CheckSameShape(up, out);
  stream_.Count(OpKind::kElementwise, 0, gate.bytes() + up.bytes() + out.bytes());
}

void DryOps::GateHeads(const Tensor& logits, Tensor x) {
  CheckFloat(logits);
  CheckFloat(x);
  CheckRowWidth(x);
  KINORA_CHECK(logits.rows() == x.rows() && x.width() % logits.width() == 0)
      << logits.shape().ToString() << " for " << x.shape().ToString();
  stream_.Count(OpKind::kElementwise, 0, logits.bytes() + 2 * x.bytes());
}

void DryOps::Scale(const Tensor& x, float /*factor*/, Tensor out) {
  CheckSameShape(x, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + out.bytes());
}

void DryOps::Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) {
  CheckSameShape(x, out);
  KINORA_CHECK(scale.dtype() == DType::kF32 && shift.dtype() == DType::kF32) << "scale and shift are float32";
  KINORA_CHECK(scale.elements() == x.width() && shift.elements() == x.width())
      << scale.shape().ToString() << ", " << shift.shape().ToString() << " for " << x.shape().ToString();
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + scale.bytes() + shift.bytes() + out.bytes());
}

void DryOps::Fill(float /*value*/, Tensor out) {
  CheckFloat(out);
  stream_.Count(OpKind::kElementwise, 0, out.bytes());
}

void DryOps::GatherRows(const Tensor& table, const Tensor& ids, float /*factor*/, Tensor out) {
  CheckFloat(table);
  CheckFloat(out);
  KINORA_CHECK(ids.dtype() == DType::kI32 && ids.elements() == out.rows() && table.width() == out.width())
      << ids.shape().ToString() << " of " << table.shape().ToString() << " to " << out.shape().ToString();
  stream_.Count(OpKind::kLookup, 0, out.rows() * table.width() * DTypeSize(table.dtype()) + ids.bytes() + out.bytes());
}

void DryOps::Increment(Tensor counters) {
  KINORA_CHECK(counters.dtype() == DType::kI32 && counters.contiguous()) << counters.shape().ToString();
  stream_.Count(OpKind::kElementwise, 0, 2 * counters.bytes());
}

void DryOps::TimestepEmbedding(const Tensor& t, Tensor out) {
  KINORA_CHECK(t.dtype() == DType::kF32 && t.elements() == out.rows() && out.width() % 2 == 0)
      << t.shape().ToString() << " to " << out.shape().ToString();
  CheckFloat(out);
  stream_.Count(OpKind::kLookup, 0, t.bytes() + out.bytes());
}

void DryOps::RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) {
  CheckRopeTable(angles, cos, sin);
  stream_.Count(OpKind::kLookup, 0, angles.fractions.bytes() + angles.frequencies.bytes() + cos.bytes() + sin.bytes());
}

void DryOps::Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) {
  CheckConv(x, w, options, out);
  stream_.Count(OpKind::kConv, WorkOfConv(w, out).flop, x.bytes() + w.bytes() + Written(out, options.accumulate));
}

void DryOps::DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) {
  CheckDepthToSpace(x, options, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + Written(out, options.accumulate));
}

void DryOps::SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) {
  CheckSpaceToDepth(x, options, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + Written(out, options.accumulate));
}

void DryOps::RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) {
  CheckRepeatNearest(x, factor, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + out.bytes());
}

void DryOps::Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) {
  CheckBlur(x, filter, stride, out);
  stream_.Count(OpKind::kConv, 2.0 * static_cast<double>(out.elements() * filter.elements()),
                x.bytes() + filter.bytes() + out.bytes());
}

void DryOps::AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) {
  CheckAddTile(tile, blend, sums);
  stream_.Count(OpKind::kElementwise, 0, 3 * tile.bytes());
}

void DryOps::FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) {
  CheckFinishRgb8(sums, options, rgb8);
  stream_.Count(OpKind::kElementwise, 0,
                sums.bytes() + rgb8.bytes() + (options.rgb.defined() ? options.rgb.bytes() : 0));
}

void DryOps::Pointwise(const Tensor& x, const PointwiseFunction&, Tensor out) {
  CheckPointwise(x, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + out.bytes());
}

void DryOps::Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) {
  CheckSnake(x, snake, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + out.bytes());
}

void DryOps::Magnitude(const Tensor& x, Tensor out) {
  CheckMagnitude(x, out);
  stream_.Count(OpKind::kElementwise, 0, x.bytes() + out.bytes());
}

void DryOps::PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) {
  CheckSameShape(v, x0);
  KINORA_CHECK(z.width() == v.width() && z.rows() > 0 && v.rows() % z.rows() == 0)
      << z.shape().ToString() << ", " << v.shape().ToString();
  KINORA_CHECK(sigma.dtype() == DType::kF32 && (sigma.elements() == 1 || sigma.elements() == z.rows()))
      << sigma.shape().ToString() << " for " << z.shape().ToString();
  stream_.Count(OpKind::kElementwise, 0, z.bytes() + v.bytes() + sigma.bytes() + x0.bytes());
}

void DryOps::CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) {
  CheckGuidance(x0, weights, cond, out);
  stream_.Count(OpKind::kElementwise, 0, x0.bytes() + out.bytes());
}

void DryOps::EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) {
  CheckSameShape(x0, z);
  KINORA_CHECK(sigmas.dtype() == DType::kF32 && sigmas.elements() == 2) << sigmas.shape().ToString();
  stream_.Count(OpKind::kElementwise, 0, x0.bytes() + sigmas.bytes() + 2 * z.bytes());
}

}  // namespace kinora
