// The text encoder's language model.
#ifndef KINORA_ENGINE_CONFIG_GEMMA_CONFIG_H_
#define KINORA_ENGINE_CONFIG_GEMMA_CONFIG_H_

#include <cstdint>
#include <vector>

namespace kinora {

struct GemmaConfig {   // Gemma-3 or Gemma-4, text part
  int generation = 3;  // 4: norm weights as stored, a norm of the values, a scalar per layer
  int64_t vocabulary = 262208;
  int64_t width = 3840;
  int64_t ff_width = 15360;
  int64_t layers = 48;
  int64_t heads = 16;
  int64_t kv_heads = 8;
  int64_t head_dim = 256;
  double norm_eps = 1e-6;
  double query_scale = 256.0;  // attention logits are q·k / sqrt(query_scale)
  double global_rope_theta = 1e6;
  double global_rope_factor = 1.0;  // "linear" scaling: frequencies / factor; 8 in the 12B model
  double local_rope_theta = 1e4;
  int64_t sliding_window = 1024;
  std::vector<bool> sliding;  // [layers]: true: local attention
  // Layers with global attention, where they differ from the others (Gemma-4).
  int64_t global_head_dim = 0;       // 0: head_dim
  int64_t global_kv_heads = 0;       // 0: kv_heads
  double global_rotated_part = 1.0;  // of the pairs of a head; the others have the frequency 0
  bool global_key_is_value = false;  // no v_proj
  int64_t head_dim_of(bool local) const { return local || global_head_dim == 0 ? head_dim : global_head_dim; }
  int64_t kv_heads_of(bool local) const { return local || global_kv_heads == 0 ? kv_heads : global_kv_heads; }
  friend bool operator==(const GemmaConfig&, const GemmaConfig&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_GEMMA_CONFIG_H_
