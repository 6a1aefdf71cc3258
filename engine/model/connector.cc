#include "engine/model/connector.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/rope.h"

namespace kinora {
namespace {

constexpr float kNormEps = 1e-6f;  // of every norm; no configuration has a key for it

}  // namespace

absl::StatusOr<Connector> Connector::Load(WeightLoader weights, const ConnectorConfig& config,
                                          const ConnectorStreamConfig& stream, int64_t rows, std::string_view name) {
  if (config.rope_layout != RopeLayout::kSplit) {
    return absl::UnimplementedError(
        "rope_type \"interleaved\" of the connectors: not available yet; released models use \"split\"");
  }
  Connector connector;
  connector.name_ = std::string(name);
  connector.rows_ = rows;
  connector.width_ = stream.width();
  connector.relay_.emplace(weights.mesh(), std::vector<int64_t>(std::max<int64_t>(1, stream.layers), 1));
  const LayerRun& held = connector.relay_->held();
  const WeightLoader whole = weights.On(connector.relay_->alone());
  const auto loader = [&](int64_t block) { return held.holds(block) ? whole : whole.HeldElsewhere(); };
  KINORA_ASSIGN_OR_RETURN(connector.registers_,
                          loader(0).LoadTensor("learnable_registers", {stream.registers, stream.width()}));
  const AttentionShape attention{.query_width = stream.width(),
                                 .context_width = stream.width(),
                                 .heads = stream.heads,
                                 .head_dim = stream.head_dim,
                                 .to_itself = true,
                                 .gated = config.gated_attention,
                                 .norm_eps = kNormEps};
  for (int64_t i = 0; i < stream.layers; ++i) {
    const WeightLoader block = loader(i).Under(absl::StrCat("transformer_1d_blocks.", i));
    Block loaded;
    KINORA_ASSIGN_OR_RETURN(loaded.attention, Attention::Load(block.Under("attn1"), attention));
    KINORA_ASSIGN_OR_RETURN(loaded.feed_forward,
                            FeedForward::Load(block.Under("ff"), stream.width(), 4 * stream.width(), config.ff_bias));
    connector.blocks_.push_back(held.holds(i) ? std::move(loaded) : Block{});
  }
  KINORA_RETURN_IF_ERROR(connector.MakeRope(weights, config));
  return connector;
}

// Computes the rotation tables of all rows.
absl::Status Connector::MakeRope(WeightLoader& weights, const ConnectorConfig& config) {
  const Shape table{rows_, width_ / 2};
  const std::string what = "the rotary tables of a connector";
  KINORA_ASSIGN_OR_RETURN(HostParameter cos, HostParameter::Allocate(what, DType::kF32, table));
  KINORA_ASSIGN_OR_RETURN(HostParameter sin, HostParameter::Allocate(what, DType::kF32, table));
  std::vector<float> positions(rows_);
  std::iota(positions.begin(), positions.end(), 0.0f);
  FillRopeTable({.width = width_,
                 .max_positions = {config.rope_max_position},
                 .theta = config.rope_theta,
                 .double_precision = config.rope_double_precision},
                {positions}, 0, width_ / 2, cos.tensor().data<float>(), sin.tensor().data<float>());
  KINORA_ASSIGN_OR_RETURN(cos_, weights.Upload(std::move(cos)));
  KINORA_ASSIGN_OR_RETURN(sin_, weights.Upload(std::move(sin)));
  return absl::OkStatus();
}

void Connector::FillRows(Exec& exec, const Tensor& features, absl::Span<const int64_t> lengths, Tensor x) const {
  const int64_t period = registers_.tensor().dim(0);
  int64_t token = 0, row = 0;
  for (int64_t length : lengths) {
    KINORA_CHECK(1 <= length && length <= rows_) << "a prompt of " << length << " tokens in rows of " << rows_;
    exec.ops.stream().Copy(features.Rows(token, token + length), x.Rows(row, row + length));
    for (int64_t position = length; position < rows_;) {
      const int64_t first = position % period, count = std::min(period - first, rows_ - position);
      exec.ops.stream().Copy(registers_.tensor().Rows(first, first + count),
                             x.Rows(row + position, row + position + count));
      position += count;
    }
    token += length;
    row += rows_;
  }
  KINORA_CHECK(token == features.rows() && row == x.rows())
      << features.shape().ToString() << ", " << x.shape().ToString();
}

void Connector::Forward(Exec& exec, const Tensor& features, absl::Span<const int64_t> lengths, Tensor out) const {
  KINORA_CHECK(lengths.size() <= kMaxBatch && out.width() == width_)
      << lengths.size() << " prompts, " << out.shape().ToString();
  const Rope rope{.cos = cos_, .sin = sin_};
  ArenaScope temp(exec.arena);
  // The residual, and its norm, which the next part reads.
  const Tensor carried = temp.Alloc(exec.dtype, {2, out.rows(), width_});
  const Tensor x = carried.Rows(0, 1).As2D(), normed = carried.Rows(1, 2).As2D();
  const ResidualUpdate update{.x = x, .eps = kNormEps, .normed = {{{.out = normed}}}};
  relay_->Run(exec, {carried}, [&](Exec& alone, int64_t i) {
    if (i == 0) {
      FillRows(alone, features, lengths, x);
      alone.ops.RmsNorm(x, nullptr, kNormEps, Activation::kNone, normed);
    }
    if (blocks_.empty()) return;
    const InBlock block(alone, i);
    blocks_[i].attention.ForwardSelf(alone, normed, static_cast<int>(lengths.size()), rope, update);
    blocks_[i].feed_forward.Forward(alone, normed, update);
    if (alone.taps != nullptr) Tap(alone, absl::StrCat(name_, ".block", i), x);
  });
  exec.ops.stream().Copy(normed, out);
}

}  // namespace kinora
