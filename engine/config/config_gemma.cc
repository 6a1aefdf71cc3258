// Reads config.json of a Gemma-3 or Gemma-4 text encoder, which files for LTX-2.5 have as metadata (`gemma_config`).
// Names and defaults: transformers' Gemma3TextConfig and Gemma4UnifiedTextConfig; Gemma-3's rotary parameters in the
// form of the published files (rope_theta, rope_local_base_freq, rope_scaling) or of transformers 5 (rope_parameters).
// Also reads model_max_length of tokenizer_config.json, on which shapes depend.
#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/config/config_fields.h"
#include "engine/config/config_reader.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

constexpr int64_t kMaxTextHeadDim = 512;  // limit of attention (kMaxHeadWidth); Gemma-4's default for global layers
constexpr Range kRotatedPart{0.0, 1.0};

// Returns the factor of a "default" or "linear" rotary embedding, the only kinds that Gemma-3 uses.
double LinearFactor(const ConfigFields& rope) {
  const size_t type = rope.Choose(rope.Has("rope_type") ? "rope_type" : "type", {"default", "linear"}, 0);
  double factor = 1.0;
  if (type == 1) rope.Read("factor", &factor, kScale);
  return factor;
}

void ReadRope(const ConfigFields& f, GemmaConfig* g) {
  f.Read("rope_theta", &g->global_rope_theta, kRopeTheta);
  f.Read("rope_local_base_freq", &g->local_rope_theta, kRopeTheta);
  g->global_rope_factor = LinearFactor(f.Object("rope_scaling"));
  if (!f.Has("rope_parameters")) return;
  const ConfigFields full = f.Object("rope_parameters").Object("full_attention");
  const ConfigFields sliding = f.Object("rope_parameters").Object("sliding_attention");
  full.Read("rope_theta", &g->global_rope_theta, kRopeTheta);
  sliding.Read("rope_theta", &g->local_rope_theta, kRopeTheta);
  if (full.Has("rope_type")) g->global_rope_factor = LinearFactor(full);
  if (LinearFactor(sliding) != 1.0) sliding.Problem("factor", "scaling of local attention is not supported");
}

// Reads which layers are local: layer_types lists each layer; without it, every sliding_window_pattern-th is global.
void ReadLayerKinds(const ConfigFields& f, GemmaConfig* g) {
  int64_t pattern = 6;
  f.Read("_sliding_window_pattern", &pattern, kMaxLayers);
  f.Read("sliding_window_pattern", &pattern, kMaxLayers);
  for (int64_t i = 0; i < g->layers; ++i) g->sliding.push_back((i + 1) % pattern != 0);
  const nlohmann::json* types = f.Find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != g->layers) {
    return f.Problem("layer_types", Cat("must be a list of num_hidden_layers (", g->layers, ") names"));
  }
  for (int64_t i = 0; i < g->layers; ++i) {
    const bool sliding = (*types)[i] == "sliding_attention";
    if (!sliding && (*types)[i] != "full_attention") {
      return f.Problem("layer_types", "supported: sliding_attention, full_attention");
    }
    g->sliding[i] = sliding;
  }
}

// The fields that both generations have.
void ReadShared(const ConfigFields& f, GemmaConfig* g) {
  f.Require("hidden_activation", "gelu_pytorch_tanh");
  f.Require("attention_bias", false);
  f.Read("vocab_size", &g->vocabulary, 1 << 22);
  f.Read("hidden_size", &g->width, kMaxWidth);
  f.Read("intermediate_size", &g->ff_width, kMaxWidth);
  f.Read("num_hidden_layers", &g->layers, kMaxLayers);
  f.Read("num_attention_heads", &g->heads, kMaxHeads);
  f.Read("num_key_value_heads", &g->kv_heads, kMaxHeads);
  f.Read("head_dim", &g->head_dim, kMaxTextHeadDim);
  f.Read("rms_norm_eps", &g->norm_eps, kEpsilon);
  f.Read("sliding_window", &g->sliding_window, 1 << 24);
}

void CheckHeads(const ConfigFields& f, const char* kv_heads_key, int64_t kv_heads, const char* head_dim_key,
                int64_t head_dim, int64_t heads) {
  if (heads % kv_heads != 0) f.Problem(kv_heads_key, Cat(kv_heads, " must divide num_attention_heads ", heads));
  if (head_dim % 8 != 0) f.Problem(head_dim_key, "must be a multiple of 8");
}

GemmaConfig ReadGemma3(const ConfigFields& f) {
  GemmaConfig g{.width = 2304, .ff_width = 9216, .layers = 26, .heads = 8, .kv_heads = 4, .sliding_window = 4096};
  f.Require("use_bidirectional_attention", false);
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (f.Has(key)) f.Problem(key, "is not supported, only null is");
  }
  ReadShared(f, &g);
  f.Read("query_pre_attn_scalar", &g.query_scale, kScale);
  ReadRope(f, &g);
  ReadLayerKinds(f, &g);
  CheckHeads(f, "num_key_value_heads", g.kv_heads, "head_dim", g.head_dim, g.heads);
  return g;
}

// Reads rope_parameters of Gemma-4: "default", and "proportional", which rotates the first part of a head's pairs.
void ReadProportionalRope(const ConfigFields& f, GemmaConfig* g) {
  const ConfigFields full = f.Object("rope_parameters").Object("full_attention");
  const ConfigFields sliding = f.Object("rope_parameters").Object("sliding_attention");
  full.Read("rope_theta", &g->global_rope_theta, kRopeTheta);
  sliding.Read("rope_theta", &g->local_rope_theta, kRopeTheta);
  sliding.Choose("rope_type", {"default"}, 0);
  sliding.Require("partial_rotary_factor", 1.0);
  if (!f.Has("rope_parameters")) g->global_rotated_part = 0.25;
  if (full.Choose("rope_type", {"default", "proportional"}, 0) == 0) return full.Require("partial_rotary_factor", 1.0);
  full.Read("partial_rotary_factor", &g->global_rotated_part, kRotatedPart);
  full.Read("factor", &g->global_rope_factor, kScale);
}

// Parts of transformers' Gemma-4 that its 12B model does not have, and images, which prompts do not contain.
void CheckGemma4(const ConfigFields& f) {
  for (const char* key : {"num_kv_shared_layers", "hidden_size_per_layer_input"}) f.Require(key, 0);
  for (const char* key : {"use_double_wide_mlp", "enable_moe_block"}) f.Require(key, false);
  for (const char* key : {"attn_logit_softcapping", "per_layer_config"}) {
    if (f.Has(key)) f.Problem(key, "is not supported");
  }
  f.Choose("use_bidirectional_attention", {"vision"}, 0);
}

GemmaConfig ReadGemma4(const ConfigFields& f) {
  GemmaConfig g{.generation = 4,
                .vocabulary = 262144,
                .width = 2304,
                .ff_width = 9216,
                .layers = 30,
                .heads = 8,
                .kv_heads = 4,
                .query_scale = 1};
  CheckGemma4(f);
  ReadShared(f, &g);
  g.global_head_dim = kMaxTextHeadDim;
  f.Read("global_head_dim", &g.global_head_dim, kMaxTextHeadDim);
  f.Read("attention_k_eq_v", &g.global_key_is_value);
  g.global_kv_heads = g.kv_heads;  // the number of its own only counts without a v_proj
  if (g.global_key_is_value) f.Read("num_global_key_value_heads", &g.global_kv_heads, kMaxHeads);
  ReadProportionalRope(f, &g);
  ReadLayerKinds(f, &g);
  if (f.Has("layer_types") && !g.sliding.empty() && g.sliding.back()) {
    f.Problem("layer_types", "the last layer must be full_attention");
  }
  if (!g.sliding.empty()) g.sliding.back() = false;
  CheckHeads(f, "num_key_value_heads", g.kv_heads, "head_dim", g.head_dim, g.heads);
  CheckHeads(f, "num_global_key_value_heads", g.global_kv_heads, "global_head_dim", g.global_head_dim, g.heads);
  return g;
}

}  // namespace

absl::StatusOr<GemmaConfig> ParseGemmaConfig(std::string_view text) {
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(text, "text_encoder configuration"));
  ConfigProblems problems;
  const ConfigFields root(&json, "text_encoder", &problems);
  const std::string type = root.Get<std::string>("model_type", "");
  if (type == "gemma4") {
    return absl::UnimplementedError(
        "text_encoder.model_type: gemma4, which only rewrites prompts; LTX-2.5 needs its text encoder, gemma4_unified");
  }
  if (type.empty()) root.Problem("model_type", "is missing; expected gemma3, gemma3_text or gemma4_unified");
  root.Choose("model_type", {"gemma3", "gemma3_text", "gemma4_unified", "gemma4_unified_text"}, 0);
  const bool whole = !type.ends_with("_text");
  if (whole && !root.Has("text_config")) root.Problem("text_config", "is missing");
  const ConfigFields text_config = whole ? root.Object("text_config") : root;
  GemmaConfig gemma = type.starts_with("gemma4") ? ReadGemma4(text_config) : ReadGemma3(text_config);
  KINORA_RETURN_IF_ERROR(problems.status());
  return gemma;
}

absl::StatusOr<int64_t> ParsePromptRows(std::string_view tokenizer_config) {
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(tokenizer_config, "tokenizer_config.json"));
  if (!json.is_object()) return absl::InvalidArgumentError("tokenizer_config.json: not an object");
  const auto found = json.find("model_max_length");
  if (found == json.end() || found->is_null()) return kMaxPromptRows;
  // Gemma's published value has 31 digits, so it reads as a float64.
  const double length = found->is_number() ? found->get<double>() : 0;
  if (!(length >= 1) || length != std::floor(length)) {
    return absl::InvalidArgumentError(Cat("tokenizer_config.json: model_max_length: ", ShortText(*found),
                                          " must be a whole number of at least 1; beyond ", kMaxPromptRows,
                                          " it reads as ", kMaxPromptRows));
  }
  return static_cast<int64_t>(std::min<double>(length, kMaxPromptRows));
}

}  // namespace kinora
