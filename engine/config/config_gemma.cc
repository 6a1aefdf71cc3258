// Reads config.json of a Gemma-3 text encoder. Names and defaults: transformers' Gemma3TextConfig; rotary parameters in
// the form of the published files (rope_theta, rope_local_base_freq, rope_scaling) or of transformers 5
// (rope_parameters). Also reads model_max_length of tokenizer_config.json, on which shapes depend.
#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/config/config_fields.h"
#include "engine/config/config_reader.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

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

GemmaConfig ReadText(const ConfigFields& f) {
  GemmaConfig g;
  g.width = 2304;
  g.ff_width = 9216;
  g.layers = 26;
  g.heads = 8;
  g.kv_heads = 4;
  g.sliding_window = 4096;
  f.Require("hidden_activation", "gelu_pytorch_tanh");
  f.Require("attention_bias", false);
  f.Require("use_bidirectional_attention", false);
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (f.Has(key)) f.Problem(key, "is not supported, only null is");
  }
  f.Read("vocab_size", &g.vocabulary, 1 << 22);
  f.Read("hidden_size", &g.width, kMaxWidth);
  f.Read("intermediate_size", &g.ff_width, kMaxWidth);
  f.Read("num_hidden_layers", &g.layers, kMaxLayers);
  f.Read("num_attention_heads", &g.heads, kMaxHeads);
  f.Read("num_key_value_heads", &g.kv_heads, kMaxHeads);
  f.Read("head_dim", &g.head_dim, kMaxHeadDim);
  f.Read("rms_norm_eps", &g.norm_eps, kEpsilon);
  f.Read("query_pre_attn_scalar", &g.query_scale, kScale);
  f.Read("sliding_window", &g.sliding_window, 1 << 24);
  ReadRope(f, &g);
  ReadLayerKinds(f, &g);
  if (g.heads % g.kv_heads != 0)
    f.Problem("num_key_value_heads", Cat(g.kv_heads, " must divide num_attention_heads ", g.heads));
  if (g.head_dim % 8 != 0) f.Problem("head_dim", "must be a multiple of 8");
  return g;
}

}  // namespace

absl::StatusOr<GemmaConfig> ParseGemmaConfig(std::string_view text) {
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(text, "text_encoder configuration"));
  ConfigProblems problems;
  const ConfigFields root(&json, "text_encoder", &problems);
  const std::string type = root.Get<std::string>("model_type", "");
  if (type == "gemma4_unified" || type == "gemma4") {
    return absl::UnimplementedError(
        "text_encoder.model_type: Gemma-4, the text encoder of LTX-2.5, is not available yet");
  }
  root.Choose("model_type", {"gemma3", "gemma3_text"}, 0);
  if (type.empty()) root.Problem("model_type", "is missing; expected gemma3 or gemma3_text");
  if (type == "gemma3" && !root.Has("text_config")) root.Problem("text_config", "is missing");
  GemmaConfig gemma = ReadText(type == "gemma3_text" ? root : root.Object("text_config"));
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
