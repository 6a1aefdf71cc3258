#include "engine/config/config_sections.h"

#include "engine/config/family_defaults.h"

namespace kinora {

std::string FamilyOf(const TransformerConfig& transformer) {
  if (transformer.keyframes_abs_pos_embedding) return std::string(kLtx25);
  return std::string(transformer.cross_attention_adaln ? kLtx23 : kLtx20);
}

// Names and defaults of diffusers' FlowMatchEulerDiscreteScheduler. The metadata of released files has none of these
// keys, so the kind stays unknown.
SchedulerConfig ReadScheduler(const ConfigFields& f) {
  SchedulerConfig s;
  if (!f.Has("use_dynamic_shifting")) return s;
  f.Require("num_train_timesteps", 1000);
  f.Require("time_shift_type", "exponential");
  f.Require("invert_sigmas", false);
  f.Require("use_karras_sigmas", false);
  f.Require("use_exponential_sigmas", false);
  f.Require("use_beta_sigmas", false);
  f.Require("stochastic_sampling", false);
  const bool dynamic = f.Get("use_dynamic_shifting", false);
  s.kind = dynamic ? SchedulerConfig::Kind::kDev : SchedulerConfig::Kind::kDistilled;
  s.terminal.reset();
  if (f.Has("shift_terminal")) f.Read("shift_terminal", &s.terminal.emplace(0.1), kTerminal);
  if (!dynamic) {
    f.Require("shift", 1.0);
    if (s.terminal) f.Problem("shift_terminal", "is not supported without use_dynamic_shifting");
    return s;
  }
  f.Read("base_shift", &s.base_shift, kShift);
  f.Read("max_shift", &s.max_shift, kShift);
  f.Read("base_image_seq_len", &s.base_tokens, 1 << 24);
  f.Read("max_image_seq_len", &s.max_tokens, 1 << 24);
  if (s.max_tokens <= s.base_tokens) f.Problem("max_image_seq_len", "must exceed base_image_seq_len");
  return s;
}

void ReadDilations(const ConfigFields& f, std::string_view key, std::vector<std::vector<int64_t>>* dilations) {
  const nlohmann::json* value = f.Find(key);
  if (value == nullptr) return;
  if (!value->is_array() || value->empty() || value->size() > 64) return f.Problem(key, "must be a list of lists");
  std::vector<std::vector<int64_t>> lists;
  for (const nlohmann::json& entry : *value) {
    const nlohmann::json wrapped = {{std::string(key), entry}};
    const ConfigFields one(&wrapped, f.Path(key), &f.problems());
    lists.emplace_back();
    one.Read(key, &lists.back(), 1 << 12);
    if (lists.back().empty()) return;  // null, or Read has reported a problem
  }
  *dilations = std::move(lists);
}

void RejectAudioAttention(const ConfigFields& f, size_t levels, bool middle_by_default) {
  if (f.Get("mid_block_add_attention", middle_by_default)) {
    f.Problem("mid_block_add_attention", middle_by_default
                                             ? "true (which its absence means) is not supported, only false is"
                                             : "true is not supported, only false is");
  }
  int64_t resolution = 256;
  f.Read("resolution", &resolution, 1 << 20);
  const nlohmann::json* at = f.Find("attn_resolutions");
  if (at == nullptr) return;
  if (!at->is_array()) return f.Problem("attn_resolutions", "must be a list");
  for (size_t level = 0; level < levels; ++level) {
    for (const nlohmann::json& value : *at) {
      if (value == (resolution >> level)) f.Problem("attn_resolutions", "attention in the audio VAE is not supported");
    }
  }
}

}  // namespace kinora
