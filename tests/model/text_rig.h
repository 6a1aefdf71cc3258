// Shared by tests of the text models: configurations of the goldens, and removal of padding rows.
#ifndef KINORA_TESTS_MODEL_TEXT_RIG_H_
#define KINORA_TESTS_MODEL_TEXT_RIG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/config/model_config.h"
#include "tests/testing/golden.h"
#include "tests/testing/model_rig.h"

namespace kinora {

// Returns a file with the golden's weights. The first rank that calls it writes the file; the test program removes it
// at exit.
inline std::string GoldenCheckpoint(const std::string& name) {
  struct Written {
    explicit Written(const std::string& name) : golden(name), path(golden.WriteCheckpoint()) {}
    Golden golden;
    std::string path;
  };
  static absl::Mutex mutex;
  static std::map<std::string, Written> written;
  absl::MutexLock lock(&mutex);
  return written.try_emplace(name, name).first->second.path;
}

// Returns the valid rows of all prompts in sequence, from a left-padded f32 tensor [prompts, rows, width]. `state` is
// the index on an optional fourth axis.
inline HostTensor PackValid(const Tensor& padded, const std::vector<int64_t>& lengths, int64_t state = 0) {
  const int64_t rows = padded.dim(1), width = padded.dim(2), states = padded.shape().rank() == 4 ? padded.dim(3) : 1;
  int64_t tokens = 0;
  for (int64_t length : lengths) tokens += length;
  HostTensor packed(DType::kF32, {tokens, width});
  float* to = packed.f32();
  for (size_t prompt = 0; prompt < lengths.size(); ++prompt) {
    for (int64_t row = rows - lengths[prompt]; row < rows; ++row) {
      const float* from = padded.data<float>() + (static_cast<int64_t>(prompt) * rows + row) * width * states + state;
      for (int64_t i = 0; i < width; ++i) *to++ = from[i * states];
    }
  }
  return packed;
}

// Gemma-3 as in tests/golden/golden/configs.py, with `layers` layers, of which every `pattern`-th is global.
inline GemmaConfig TinyGemma(int64_t layers = 6, int64_t pattern = 6, int64_t window = 64, int64_t vocabulary = 1040) {
  GemmaConfig config{.vocabulary = vocabulary,
                     .width = 64,
                     .ff_width = 96,
                     .layers = layers,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 16,
                     .query_scale = 16,
                     .global_rope_factor = 8,
                     .sliding_window = window};
  for (int64_t i = 0; i < layers; ++i) config.sliding.push_back((i + 1) % pattern != 0);
  return config;
}

inline GemmaConfig ReleasedGemma() {  // 12B
  GemmaConfig config{.global_rope_factor = 8};
  for (int64_t i = 0; i < config.layers; ++i) config.sliding.push_back((i + 1) % 6 != 0);
  return config;
}

inline ConnectorConfig TinyConnector20() {
  return {.text_width = 48,
          .text_states = 5,
          .video = {.heads = 3, .head_dim = 16, .layers = 2, .registers = 16},
          .audio = {.heads = 3, .head_dim = 16, .layers = 2, .registers = 16},
          .rope_max_position = 4096,
          .rope_double_precision = true};
}

inline ConnectorConfig TinyConnector23(int64_t states = 5, int64_t registers = 16) {
  return {.text_width = 64,
          .text_states = states,
          .per_modality_projections = true,
          .projection_bias = true,
          .video = {.heads = 4, .head_dim = 16, .layers = 2, .registers = registers},
          .audio = {.heads = 4, .head_dim = 8, .layers = 2, .registers = registers},
          .gated_attention = true,
          .rope_max_position = 4096,
          .rope_double_precision = true};
}

inline ConnectorConfig ReleasedConnector20() { return {.rope_max_position = 4096, .rope_double_precision = true}; }

inline ConnectorConfig ReleasedConnector23() {
  return {.per_modality_projections = true,
          .projection_bias = true,
          .video = {.heads = 32, .head_dim = 128, .layers = 8},
          .audio = {.heads = 32, .head_dim = 64, .layers = 8},
          .gated_attention = true,
          .rope_max_position = 4096,
          .rope_double_precision = true};
}

}  // namespace kinora

#endif  // KINORA_TESTS_MODEL_TEXT_RIG_H_
