#include "engine/model/gemma.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// Gemma-3's checkpoints store the norm weights minus one.
TensorSpec NormSpec(const GemmaConfig& config) { return {.add = config.generation == 3 ? 1.0f : 0.0f}; }

struct Frequencies {
  double theta, factor;
  int64_t rotated;  // pairs; the others have the frequency 0
};

// Angle of position p and pair i: p · theta^(-2i/d) / factor, each step rounded to float32 as the reference does.
void FillTables(const Frequencies& f, const Tensor& cos, const Tensor& sin) {
  const int64_t pairs = cos.width();
  for (int64_t i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * pairs);
    const float power = static_cast<float>(std::pow(f.theta, static_cast<double>(exponent)));
    const float frequency = i < f.rotated ? 1.0f / power / static_cast<float>(f.factor) : 0.0f;
    for (int64_t position = 0; position < cos.rows(); ++position) {
      const double angle = static_cast<float>(position) * frequency;
      cos.data<float>()[position * pairs + i] = static_cast<float>(std::cos(angle));
      sin.data<float>()[position * pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
}

Frequencies FrequenciesOf(const GemmaConfig& c, bool sliding) {
  const int64_t pairs = c.head_dim_of(sliding) / 2;
  if (sliding) return {.theta = c.local_rope_theta, .factor = 1.0, .rotated = pairs};
  return {.theta = c.global_rope_theta,
          .factor = c.global_rope_factor,
          .rotated = static_cast<int64_t>(c.global_rotated_part * static_cast<double>(pairs))};
}

// The square root of the width, rounded to the activations' dtype like the reference's tensor.
float EmbeddingScale(const GemmaConfig& config, DType dtype) {
  const float scale = static_cast<float>(std::sqrt(static_cast<double>(config.width)));
  return dtype == DType::kBF16 ? static_cast<float>(bf16(scale)) : scale;
}

}  // namespace

absl::StatusOr<Gemma::Layer> Gemma::LoadLayer(WeightLoader weights, const GemmaConfig& c, bool sliding) {
  Layer layer{.sliding = sliding};
  const int64_t head_dim = c.head_dim_of(sliding);
  const int64_t q_width = c.heads * head_dim, kv_width = c.kv_heads_of(sliding) * head_dim;
  const auto norm = [&](const char* name, int64_t width) {
    return weights.LoadTensor(absl::StrCat(name, ".weight"), {width}, NormSpec(c));
  };
  const auto linear = [&](std::initializer_list<std::string_view> names, int64_t out, int64_t in) {
    return weights.LoadWeight(names, {.out = out, .in = in, .bias = false});
  };
  KINORA_ASSIGN_OR_RETURN(layer.input_norm, norm("input_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.post_attention_norm, norm("post_attention_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.pre_feed_forward_norm, norm("pre_feedforward_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.post_feed_forward_norm, norm("post_feedforward_layernorm", c.width));
  KINORA_ASSIGN_OR_RETURN(layer.q_norm, norm("self_attn.q_norm", head_dim));
  KINORA_ASSIGN_OR_RETURN(layer.k_norm, norm("self_attn.k_norm", head_dim));
  KINORA_ASSIGN_OR_RETURN(layer.query, linear({"self_attn.q_proj"}, q_width, c.width));
  if (!sliding && c.global_key_is_value) {
    KINORA_ASSIGN_OR_RETURN(layer.key_value, linear({"self_attn.k_proj"}, kv_width, c.width));
  } else {
    KINORA_ASSIGN_OR_RETURN(layer.key_value, linear({"self_attn.k_proj", "self_attn.v_proj"}, kv_width, c.width));
  }
  KINORA_ASSIGN_OR_RETURN(layer.out, linear({"self_attn.o_proj"}, c.width, q_width));
  KINORA_ASSIGN_OR_RETURN(layer.gate_up, linear({"mlp.gate_proj", "mlp.up_proj"}, c.ff_width, c.width));
  KINORA_ASSIGN_OR_RETURN(layer.down, linear({"mlp.down_proj"}, c.width, c.ff_width));
  if (c.generation == 3) return layer;
  KINORA_ASSIGN_OR_RETURN(const HostParameter scalar, weights.LoadOnHost("layer_scalar", {1}));
  if (scalar.has_values()) layer.scalar = *scalar.tensor().data<float>();
  return layer;
}

absl::StatusOr<Gemma::AttentionKind> Gemma::LoadKind(WeightLoader& weights, const GemmaConfig& config, int64_t rows,
                                                     bool sliding) {
  AttentionKind kind{.head_dim = config.head_dim_of(sliding),
                     .kv_heads = config.kv_heads_of(sliding),
                     .window = sliding ? config.sliding_window : 0,
                     .key_is_value = !sliding && config.global_key_is_value};
  const Shape table{rows, kind.head_dim / 2};
  const std::string what = "the rotary tables of the text encoder";
  KINORA_ASSIGN_OR_RETURN(HostParameter cos, HostParameter::Allocate(what, DType::kF32, table));
  KINORA_ASSIGN_OR_RETURN(HostParameter sin, HostParameter::Allocate(what, DType::kF32, table));
  FillTables(FrequenciesOf(config, sliding), cos.tensor(), sin.tensor());
  KINORA_ASSIGN_OR_RETURN(kind.cos, weights.Upload(std::move(cos)));
  KINORA_ASSIGN_OR_RETURN(kind.sin, weights.Upload(std::move(sin)));
  if (config.generation == 3) return kind;
  KINORA_ASSIGN_OR_RETURN(HostParameter ones, HostParameter::Allocate("ones", DType::kF32, {kind.head_dim}));
  std::fill_n(ones.tensor().data<float>(), kind.head_dim, 1.0f);
  KINORA_ASSIGN_OR_RETURN(kind.value_norm, weights.Upload(std::move(ones)));
  return kind;
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
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < c.layers; ++i) {
    const bool sliding = c.sliding[i];
    const int64_t key_value = (!sliding && c.global_key_is_value ? 1 : 2) * c.kv_heads_of(sliding);
    sizes.push_back(c.width * ((2 * c.heads + key_value) * c.head_dim_of(sliding) + 3 * c.ff_width));
  }
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
  KINORA_ASSIGN_OR_RETURN(gemma.final_norm_,
                          loader(config.layers).LoadTensor("norm.weight", {config.width}, NormSpec(config)));
  for (int64_t i = 0; i < config.layers; ++i) {
    KINORA_ASSIGN_OR_RETURN(Layer layer,
                            LoadLayer(loader(i).Under(absl::StrCat("layers.", i)), config, config.sliding[i]));
    for (const Weight* matrix : layer.matrices()) {
      if (residence != Residence::kEvicted || !held.holds(i)) continue;
      KINORA_RETURN_IF_ERROR(weights.backend().ops().EvictWeight(*matrix));
    }
    gemma.layers_.push_back(held.holds(i) ? std::move(layer) : Layer{});
  }
  KINORA_ASSIGN_OR_RETURN(gemma.global_, LoadKind(weights, config, rows, /*sliding=*/false));
  KINORA_ASSIGN_OR_RETURN(gemma.local_, LoadKind(weights, config, rows, /*sliding=*/true));
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
  const AttentionKind& kind = layer.sliding ? local_ : global_;
  const float eps = static_cast<float>(config_.norm_eps);
  const int64_t tokens = x.rows(), q_width = config_.heads * kind.head_dim, kv_width = kind.kv_width();
  ArenaScope temp(exec.arena);
  Tensor normed = temp.Alloc(exec.dtype, {tokens, config_.width});
  Tensor q = temp.Alloc(exec.dtype, {tokens, q_width}), kv = temp.Alloc(exec.dtype, {tokens, 2 * kv_width});
  Tensor attended = temp.Alloc(exec.dtype, {tokens, q_width});
  const Tensor v = kv.Columns(kv_width, 2 * kv_width);
  exec.ops.RmsNorm(x, &layer.input_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Matmul(normed, layer.query, {}, q);
  if (kind.key_is_value) {
    exec.ops.Matmul(normed, layer.key_value, {}, kv.Columns(0, kv_width));
    exec.ops.stream().Copy(kv.Columns(0, kv_width), v);
  } else {
    exec.ops.Matmul(normed, layer.key_value, {}, kv);
  }
  if (kind.value_norm.tensor().defined()) {
    exec.ops.NormRope(v, {.weight = kind.value_norm, .eps = eps, .group = kind.head_dim}, /*sum_of_squares=*/nullptr);
  }
  int64_t begin = 0;
  for (int64_t length : lengths) {  // each prompt attends only to itself
    const int64_t end = begin + length;
    AttendPrompt(exec, layer, kind, q.Rows(begin, end), kv.Rows(begin, end), attended.Rows(begin, end));
    begin = end;
  }
  exec.ops.Matmul(attended, layer.out, {}, normed);
  if (exec.taps != nullptr) Tap(exec, absl::StrCat("layer", index, ".attn.out"), normed);
  exec.ops.RmsNorm(normed, &layer.post_attention_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Add(normed, x);
}

// q and the keys, kv's first half, are normalised and rotated in place.
void Gemma::AttendPrompt(Exec& exec, const Layer& layer, const AttentionKind& kind, const Tensor& q, const Tensor& kv,
                         const Tensor& out) const {
  const float eps = static_cast<float>(config_.norm_eps);
  const int64_t d = kind.head_dim, first = rows_ - q.rows();
  const Rope rope{.cos = kind.cos.tensor().Rows(first, rows_), .sin = kind.sin.tensor().Rows(first, rows_)};
  const NormRopeParams q_params{.weight = layer.q_norm, .eps = eps, .group = d, .head_width = d, .rope = rope};
  const NormRopeParams k_params{.weight = layer.k_norm, .eps = eps, .group = d, .head_width = d, .rope = rope};
  const Tensor k = kv.Columns(0, kind.kv_width()), v = kv.Columns(kind.kv_width(), 2 * kind.kv_width());
  exec.ops.QkNormRope(q, k, q_params, k_params);
  const AttentionOptions options{.heads = static_cast<int>(config_.heads),
                                 .kv_heads = static_cast<int>(kind.kv_heads),
                                 .scale = static_cast<float>(1.0 / std::sqrt(config_.query_scale)),
                                 .causal = true,
                                 .window = kind.window};
  exec.ops.Attention(q, k, v, options, out);
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
  exec.ops.ActivateThenMultiply(gate, Activation::kGeluTanh, up, gate);
  exec.ops.Matmul(gate, layer.down, {}, normed);
  if (exec.taps != nullptr) Tap(exec, absl::StrCat("layer", index, ".mlp.out"), normed);
  exec.ops.RmsNorm(normed, &layer.post_feed_forward_norm.tensor(), eps, Activation::kNone, normed);
  exec.ops.Add(normed, x);
  if (config_.generation > 3) exec.ops.Scale(x, layer.scalar, x);
}

// Returns device memory for one layer's matrices, if they are evicted: each as large as the largest of its kind.
std::vector<Tensor> Gemma::AllocLanding(ArenaScope& temp) const {
  std::vector<Tensor> landing;
  if (residence_ != Residence::kEvicted) return landing;
  std::array<int64_t, std::tuple_size_v<decltype(Layer().matrices())>> bytes{};
  for (int64_t i = held_states().begin; i < std::min(held_states().end, config_.layers); ++i) {
    for (size_t m = 0; m < bytes.size(); ++m) bytes[m] = std::max(bytes[m], layers_[i].matrices()[m]->bytes());
  }
  if (bytes[0] == 0) return landing;  // no layer
  for (int64_t size : bytes) landing.push_back(temp.Alloc(DType::kU8, {size}));
  return landing;
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
  const std::vector<Tensor> landing = AllocLanding(temp);
  relay_->Run(exec, {x, made}, [&](Exec& alone, int64_t i) {
    if (i == 0) Embed(alone, ids, x);
    if (i == config_.layers) {
      alone.ops.RmsNorm(x, &final_norm_.tensor(), static_cast<float>(config_.norm_eps), Activation::kNone, x);
      return on_state(i, x);
    }
    on_state(i, x);
    for (size_t m = 0; m < landing.size(); ++m) {
      const Weight& matrix = *layers_[i].matrices()[m];
      alone.ops.FetchWeight(matrix, Tensor(DType::kU8, {matrix.bytes()}, landing[m].raw()));
    }
    const InBlock block(alone, i);
    Attend(alone, i, lengths, x);
    FeedForward(alone, i, x);
  });
}

}  // namespace kinora
