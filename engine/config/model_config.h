// All parts of a checkpoint's configuration that change the maths, as plain structs. The code assumes no released size:
// values come from the Lightricks metadata or from the diffusers config.json files (config_reader.h). The defaults
// below are the reference code's for an absent key (ltx_core configurators). Every struct that the reader returns is
// valid: counts are bounded, widths divide.
#ifndef KINORA_ENGINE_CONFIG_MODEL_CONFIG_H_
#define KINORA_ENGINE_CONFIG_MODEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/decoder_config.h"
#include "engine/config/duration_head_config.h"
#include "engine/config/encoder_config.h"
#include "engine/config/gemma_config.h"
#include "engine/config/upsampler_config.h"

namespace kinora {

enum class RopeLayout {
  kSplit,        // pairs (j, j + head_dim / 2); each head has its own slice of the angles
  kInterleaved,  // pairs (2j, 2j + 1) over the whole width
};

// One modality of the transformer. Both use the same code.
struct ModalityConfig {
  int64_t in_channels = 128;
  int64_t out_channels = 128;
  int64_t heads = 32;
  int64_t head_dim = 128;
  int64_t context_width = 4096;              // width of the prompt's rows in attn2
  bool ff_bias = true;                       // of both linears of the feed-forward
  std::vector<double> max_positions = {20};  // RoPE divisors; video: t (s), h, w (px); audio: t (s)

  int64_t width() const { return heads * head_dim; }
  int64_t ff_width() const { return 4 * width(); }
  friend bool operator==(const ModalityConfig&, const ModalityConfig&) = default;
};

struct TransformerConfig {
  ModalityConfig video = {.max_positions = {20, 2048, 2048}};
  ModalityConfig audio = {.head_dim = 64, .context_width = 2048};
  int64_t layers = 48;
  bool gated_attention = false;        // to_gate_logits in all six attentions of a block
  bool cross_attention_adaln = false;  // 2.3: nine modulation rows and prompt tables; 2.0: six
  bool prompt_adaln = true;            // with cross_attention_adaln: prompt tables also depend on the timestep
  bool caption_projection = true;      // 2.0: [audio_]caption_projection are in the transformer
  int64_t caption_channels = 3840;     // in-features of the caption projections; unused without them
  bool keyframes_abs_pos_embedding = false;
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeLayout rope_layout = RopeLayout::kSplit;
  bool rope_double_precision = false;  // frequencies in float64, rounded once
  double timestep_scale = 1000.0;      // timestep embeddings get sigma · timestep_scale
  double av_timestep_scale = 1.0;      // cross-modal gates get sigma · av_timestep_scale (1000 in every released file)

  int64_t modulation_rows() const { return cross_attention_adaln ? 9 : 6; }
  bool has_prompt_adaln() const { return cross_attention_adaln && prompt_adaln; }
  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

// One connector: a transformer over a prompt's rows.
struct ConnectorStreamConfig {
  int64_t heads = 30;
  int64_t head_dim = 128;
  int64_t layers = 2;
  int64_t registers = 128;  // rows of learnable_registers

  int64_t width() const { return heads * head_dim; }
  friend bool operator==(const ConnectorStreamConfig&, const ConnectorStreamConfig&) = default;
};

// Rows of a prompt in every released LTX-2 model, and the maximum for any model
// (ltx_core/text_encoders/gemma/tokenizer.py).
inline constexpr int64_t kMaxPromptRows = 1024;

// The text projections and the two connectors, which turn the text encoder's hidden states into contexts.
struct ConnectorConfig {
  // Rows of a context: tokens, then registers. Smaller than the default if the model was trained with fewer rows
  // (model_max_length of tokenizer_config.json). A multiple of each connector's registers.
  int64_t rows = kMaxPromptRows;
  int64_t text_width = 3840;              // hidden size of the text encoder
  int64_t text_states = 49;               // its layers + 1
  bool per_modality_projections = false;  // 2.3: {video,audio}_aggregate_embed; 2.0: one aggregate_embed
  bool projection_bias = false;
  ConnectorStreamConfig video;
  ConnectorStreamConfig audio;
  bool gated_attention = false;
  bool ff_bias = true;
  double rope_theta = 10000.0;
  double rope_max_position = 1.0;  // 4096 in every released file
  RopeLayout rope_layout = RopeLayout::kSplit;
  bool rope_double_precision = false;

  int64_t flat_width() const { return text_width * text_states; }  // in-features of the projections
  friend bool operator==(const ConnectorConfig&, const ConnectorConfig&) = default;
};

struct SchedulerConfig {
  // Kind of the transformer according to the diffusers scheduler. Lightricks metadata does not specify it.
  enum class Kind { kUnknown, kDev, kDistilled } kind = Kind::kUnknown;
  double base_shift = 0.95;
  double max_shift = 2.05;
  int64_t base_tokens = 1024;
  int64_t max_tokens = 4096;
  std::optional<double> terminal = 0.1;
  friend bool operator==(const SchedulerConfig&, const SchedulerConfig&) = default;
};

// Recommended guidance of one modality (docs/model.md "Guidance").
struct GuidanceConfig {
  double cfg_scale = 3.0;
  double stg_scale = 1.0;
  double modality_scale = 3.0;
  double rescale = 0.7;
  friend bool operator==(const GuidanceConfig&, const GuidanceConfig&) = default;
};

// Defaults of requests. The released files specify none and get these values, which are those of their pipelines. Other
// models can specify their own in the metadata's section `generation`, with the reference pipeline's argument names.
struct GenerationConfig {
  // Width, height and frames of the clips that the model was trained on; empty: not specified.
  std::vector<std::array<int64_t, 3>> trained_shapes{};
  int64_t width = 768, height = 512, num_frames = 121;
  double frame_rate = 24.0;
  int64_t num_inference_steps = 0;             // 0: the family's default
  int32_t image_crf = 33;                      // ImageCrfOf the version of the video VAE's file
  std::optional<std::string> negative_prompt;  // absent: the released pipelines' default
  GuidanceConfig video;
  GuidanceConfig audio{.cfg_scale = 7.0};
  friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};

struct ModelConfig {
  std::string family;   // a name of family_defaults.h
  std::string version;  // model_version of the file; empty in a diffusers folder
  TransformerConfig transformer;
  ConnectorConfig connector;
  VideoDecoderConfig video_decoder;
  VideoEncoderConfig video_encoder;
  AudioDecoderConfig audio_decoder;
  AudioEncoderConfig audio_encoder;
  VocoderConfig vocoder;
  std::optional<GemmaConfig> gemma;  // absent: no text encoder was given
  SchedulerConfig scheduler;
  GenerationConfig generation;
  std::optional<UpsamplerConfig> spatial_upsampler, temporal_upsampler;  // absent: not given
  std::optional<DurationHeadConfig> duration_head;                       // absent: not given
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_MODEL_CONFIG_H_
