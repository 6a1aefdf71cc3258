#include "engine/model/gemma.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// The checkpoint stores Gemma's norm weights minus one.
constexpr TensorSpec kNorm = {.add = 1.0f};

// Angle of position p and pair i: p · theta^(-2i/d) / factor, each step rounded to float32 as the reference does.
void FillTables(double theta, double factor, const Tensor& cos, const Tensor& sin) {
  const int64_t pairs = cos.width();
  for (int64_t i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * pairs);
    const float power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    const float frequency = 1.0f / power / static_cast<float>(factor);
    for (int64_t position = 0; position < cos.rows(); ++position) {
      const double angle = static_cast<float>(position) * frequency;
      cos.data<float>()[position * pairs + i] = static_cast<float>(std::cos(angle));
      sin.data<float>()[position * pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
}

// The square root of the width, rounded to the activations' dtype like the reference's tensor.
float EmbeddingScale(const GemmaConfig& config, DType dtype) {
  const float scale = static_cast<float>(std::sqrt(static_cast<double>(config.width)));
  return dtype == DType::kBF16 ? static_cast<float>(bf16(scale)) : scale;
}

}  // namespace

absl::StatusOr<Gemma::Layer> Gemma::LoadLayer(WeightLoader weights, const GemmaConfig& c) {
  Layer layer;
  const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  const auto norm = [&](const char* name, int64_t width) {
    return weights.LoadTensor(absl::StrCat(name, ".weight"), {width}, kNorm);
  };
  const auto linear = [&](std::initializer_list<std::string_view> names, int64_t out, int64_t in) {
    return weights.LoadWeight(names, {.out = out, .in = in, .bias = false});
  };
  KINORA_ASSIGN_OR_RETURN(layer.input_norm, norm("input_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.post_attention_norm, norm("post_attention_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.pre_feed_forward_norm, norm("pre_feedforward_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.post_feed_forward_norm, norm("post_feedforward_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.q_norm, norm("self_attn.q_norm", c.head_dim));
  KINORA_ASSIGN_OR_RETURN(layer.k_norm, norm("self_attn.k_norm", c.head_dim));
  KINORA_ASSIGN_OR_RETURN(layer.query, linear({"self_attn.q_proj"}, q_width, c.width));
  KINORA_ASSIGN_OR_RETURN(layer.key_value, linear({"self_attn.k_proj", "self_attn.v_proj"}, kv_width, c.width));
  KINORA_ASSIGN_OR_RETURN(layer.out, linear({"self_attn.o_proj"}, c.width, q_width));
  KINORA_ASSIGN_OR_RETURN(layer.gate_up, linear({"mlp.gate_proj", "mlp.up_proj"}, c.ff_width, c.width));
  KINORA_ASSIGN_OR_RETURN(layer.down, linear({"mlp.down_proj"}, c.width, c.ff_width));
  return layer;
}

absl::StatusOr<Gemma::RopeTables> Gemma::LoadRope(WeightLoader& weights, const GemmaConfig& config, int64_t rows,
                                                  double theta, double factor) {
  const Shape table{rows, config.head_dim / 2};
  const std::string what = "the rotary tables of the text encoder";
  KINORA_ASSIGN_OR_RETURN(HostParameter cos, HostParameter::Allocate(what, DType::kF32, table));
  KINORA_ASSIGN_OR_RETURN(HostParameter sin, HostParameter::Allocate(what, DType::kF32, table));
  FillTables(theta, factor, cos.tensor(), sin.tensor());
  RopeTables tables;
  KINORA_ASSIGN_OR_RETURN(tables.cos, weights.Upload(std::move(cos)));
  KINORA_ASSIGN_OR_RETURN(tables.sin, weights.Upload(std::move(sin)));
  return tables;
}

absl::Status Gemma::LoadEmbeddings(WeightLoader weights) {
  const Shape shape{config_.vocabulary, config_.width};
  KINORA_ASSIGN_OR_RETURN(HostParameter table,
                          weights.LoadOnHost("embed_tokens.weight", shape, {.dtype = weights.precision().activations}));
  if (residence_ == Residence::kEvicted) {
    host_embeddings_ = std::move(table);
    return absl::OkStatus();
  }
  KINORA_ASSIGN_OR_RETURN(embeddings_, weights.Upload(std::move(table)));
  return absl::OkStatus();
}

std::vector<int64_t> Gemma::PartSizes(const GemmaConfig& c) {
  const int64_t attention = 2 * (c.heads + c.kv_heads) * c.head_dim;
  std::vector<int64_t> sizes(c.layers, c.width * (attention + 3 * c.ff_width));
  sizes.front() += c.vocabulary * c.width;
  sizes.push_back(c.width);
  return sizes;
}

absl::StatusOr<Gemma> Gemma::Load(WeightLoader weights, const GemmaConfig& config, int64_t rows, Residence residence) {
  Gemma gemma;
  gemma.config_ = config;
  gemma.residence_ = residence;
  gemma.rows_ = rows;
  gemma.relay_.emplace(weights.mesh(), PartSizes(config));
  const LayerRun& held = gemma.relay_->held();
  const auto loader = [&](int64_t part) { return held.holds(part) ? weights : weights.HeldElsewhere(); };
  KINORA_RETURN_IF_ERROR(gemma.LoadEmbeddings(loader(0)));
  KINORA_ASSIGN_OR_RETURN(gemma.final_norm_, loader(config.layers).LoadTensor("norm.weight", {config.width}, kNorm));
  for (int64_t i = 0; i < config.layers; ++i) {
    KINORA_ASSIGN_OR_RETURN(Layer layer, LoadLayer(loader(i).Under(absl::StrCat("layers.", i)), config));
    layer.sliding = config.sliding[i];
    for (const Weight* matrix : layer.matrices()) {
      if (residence != Residence::kEvicted || !held.holds(i)) continue;
      KINORA_RETURN_IF_ERROR(weights.backend().ops().EvictWeight(*matrix));
    }
    gemma.layers_.push_back(held.holds(i) ? std::move(layer) : Layer{});
  }
  KINORA_ASSIGN_OR_RETURN(gemma.global_,
                          LoadRope(weights, config, rows, config.global_rope_theta, config.global_rope_factor));
  KINORA_ASSIGN_OR_RETURN(gemma.local_, LoadRope(weights, config, rows, config.local_rope_theta, /*factor=*/1.0));
  return gemma;
}

int64_t Gemma::evicted_bytes() const {
  if (residence_ == Residence::kResident) return 0;
  int64_t bytes = held_states().holds(0) ? host_embeddings_.tensor().bytes() : 0;
  for (int64_t i = held_states().begin; i < std::min(held_states().end, config_.layers); ++i) {
    for (const Weight* matrix : layers_[i].matrices()) bytes += matrix->bytes();
  }
  return bytes;
}

// Sets x to the scaled embeddings. If they are evicted, copies only the rows of these ids to the device.
void Gemma::Embed(Exec& exec, absl::Span<const int32_t> ids, const Tensor& x) const {
  ArenaScope temp(exec.arena);
  const float scale = EmbeddingScale(config_, exec.dtype);
  Tensor rows = temp.Alloc(DType::kI32, {x.rows()});
  if (residence_ == Residence::kResident) {
    exec.ops.stream().CopyFromHost(ids.data(), rows);
    return exec.ops.GatherRows(embeddings_, rows, scale, x);
  }
  const Tensor& all = host_embeddings_.tensor();
  Tensor table = temp.Alloc(all.dtype(), x.shape());
  std::vector<int32_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  exec.ops.stream().CopyFromHost(order.data(), rows);
  for (const int32_t i : order)
    exec.ops.stream().CopyFromHost(all.Rows(ids[i], ids[i] + 1).raw(), table.Rows(i, i + 1));
  exec.ops.GatherRows(table, rows, scale, x);
}

void Gemma::Attend(Exec& exec, int64_t index, absl::Span<const int64_t> lengths, Tensor x) const {
  const Layer& layer = layers_[index];
  const float eps = static_cast<float>(config_.norm_eps);
  const int64_t tokens = x.rows(), d = config_.head_dim, q_width = config_.heads * d, kv_width = config_.kv_heads * d;
  ArenaScope temp(exec.arena);
  Tensor normed = temp.Alloc(exec.dtype, {tokens, config_.width});
  Tensor q = temp.Alloc(exec.dtype, {tokens, q_width}), kv = temp.Alloc(exec.dtype, {tokens, 2 * kv_width});
  Tensor attended = temp.Alloc(exec.dtype, {tokens, q_width});
  exec.ops.RmsNorm(x, &layer.input_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Matmul(normed, layer.query, {}, q);
  exec.ops.Matmul(normed, layer.key_value, {}, kv);

  const RopeTables& tables = layer.sliding ? local_ : global_;
  AttentionOptions options{.heads = static_cast<int>(config_.heads),
                           .kv_heads = static_cast<int>(config_.kv_heads),
                           .scale = static_cast<float>(1.0 / std::sqrt(config_.query_scale)),
                           .causal = true,
                           .window = layer.sliding ? config_.sliding_window : 0};
  int64_t begin = 0;
  for (int64_t length : lengths) {  // each prompt attends only to itself
    const int64_t end = begin + length;
    const Rope rope{.cos = tables.cos.tensor().Rows(rows_ - length, rows_),
                    .sin = tables.sin.tensor().Rows(rows_ - length, rows_)};
    const NormRopeParams q_params{.weight = layer.q_norm, .eps = eps, .group = d, .head_width = d, .rope = rope};
    const NormRopeParams k_params{.weight = layer.k_norm, .eps = eps, .group = d, .head_width = d, .rope = rope};
    const Tensor k = kv.Rows(begin, end).Columns(0, kv_width), v = kv.Rows(begin, end).Columns(kv_width, 2 * kv_width);
    exec.ops.QkNormRope(q.Rows(begin, end), k, q_params, k_params);
    exec.ops.Attention(q.Rows(begin, end), k, v, options, attended.Rows(begin, end));
    begin = end;
  }
  exec.ops.Matmul(attended, layer.out, {}, normed);
  if (exec.taps != nullptr) Tap(exec, absl::StrCat("layer", index, ".attn.out"), normed);
  exec.ops.RmsNorm(normed, &layer.post_attention_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Add(normed, x);
}

void Gemma::FeedForward(Exec& exec, int64_t index, Tensor x) const {
  const Layer& layer = layers_[index];
  const float eps = static_cast<float>(config_.norm_eps);
  const int64_t hidden_width = layer.gate_up.out() / 2;
  ArenaScope temp(exec.arena);
  Tensor normed = temp.Alloc(exec.dtype, {x.rows(), config_.width});
  Tensor gate_up = temp.Alloc(exec.dtype, {x.rows(), 2 * hidden_width});
  const Tensor gate = gate_up.Columns(0, hidden_width), up = gate_up.Columns(hidden_width, 2 * hidden_width);
  exec.ops.RmsNorm(x, &layer.pre_feed_forward_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Matmul(normed, layer.gate_up, {}, gate_up);
  exec.ops.GeluTanhMultiply(gate, up, gate);
  exec.ops.Matmul(gate, layer.down, {}, normed);
  if (exec.taps != nullptr) Tap(exec, absl::StrCat("layer", index, ".mlp.out"), normed);
  exec.ops.RmsNorm(normed, &layer.post_feed_forward_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Add(normed, x);
}

void Gemma::Forward(Exec& exec, absl::Span<const int32_t> ids, absl::Span<const int64_t> lengths, const Tensor& made,
                    StateSink on_state) const {
  int64_t tokens = 0;
  for (int64_t length : lengths) {
    KINORA_CHECK(1 <= length && length <= rows_) << "a prompt of " << length << " tokens in rows of " << rows_;
    tokens += length;
  }
  KINORA_CHECK(tokens > 0 && static_cast<int64_t>(ids.size()) == tokens) << ids.size() << " ids of " << tokens;
  ArenaScope temp(exec.arena);
  Tensor x = temp.Alloc(exec.dtype, {tokens, config_.width});
  std::vector<Tensor> landing;  // device memory for one layer's matrices, if they are evicted
  if (residence_ == Residence::kEvicted && held_states().begin < config_.layers && !held_states().empty()) {
    for (const Weight* matrix : layers_[held_states().begin].matrices()) {
      landing.push_back(temp.Alloc(DType::kU8, {matrix->bytes()}));
    }
  }
  relay_->Run(exec, {x, made}, [&](Exec& alone, int64_t i) {
    if (i == 0) Embed(alone, ids, x);
    if (i == config_.layers) {
      alone.ops.RmsNorm(x, &final_norm_.tensor(), static_cast<float>(config_.norm_eps), Activation::kNone, x);
      return on_state(i, x);
    }
    on_state(i, x);
    for (size_t m = 0; m < landing.size(); ++m) alone.ops.FetchWeight(*layers_[i].matrices()[m], landing[m]);
    const InBlock block(alone, i);
    Attend(alone, i, lengths, x);
    FeedForward(alone, i, x);
  });
}

}  // namespace kinora
