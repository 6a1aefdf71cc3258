// The parts of a model, loaded: for real, or dry, without memory, to learn what a request costs.
#ifndef KINORA_ENGINE_PIPELINE_MODULES_H_
#define KINORA_ENGINE_PIPELINE_MODULES_H_

#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "engine/diffusion/latents.h"
#include "engine/model/audio_decoder.h"
#include "engine/model/audio_encoder.h"
#include "engine/model/config.h"
#include "engine/model/latent_upsampler.h"
#include "engine/model/mel_front_end.h"
#include "engine/model/text_encoder.h"
#include "engine/model/transformer.h"
#include "engine/model/video_decoder.h"
#include "engine/model/video_encoder.h"
#include "engine/model/vocoder.h"
#include "engine/pipeline/adapters.h"
#include "engine/request/model_description.h"

namespace kinora {

struct Modules {
  struct Options {
    std::unique_ptr<const Tokenizer> tokenizer;  // null in a dry run
    std::shared_ptr<FactorCache> lora_cache;
    int64_t text_cache_bytes = 0;
    Residence text_encoder = Residence::kResident;  // of Gemma's weights, the most of it
    Streams streams = Streams::kBoth;               // kSound: nothing of the picture, for requests of sound alone
    bool rank_zero = true;  // which alone encodes sound, if the model can, and makes sound; the others load none of it
  };
  // root: of the whole checkpoint. InvalidArgument if the model has no text encoder; the loader's problems are reported
  // by its Finish.
  static absl::StatusOr<Modules> Load(const WeightLoader& root, const ModelConfig& config, Options options,
                                      absl::FunctionRef<void(std::string_view phase)> on_phase);

  std::unique_ptr<TextEncoder> text;
  std::unique_ptr<Transformer> transformer;
  std::optional<LatentUpsampler> spatial_upsampler, temporal_upsampler;  // of the files given
  std::optional<AudioEncoder> audio_encoder;                             // of a model that has one
  std::optional<MelFrontEnd> mel;                                        // with it
  std::optional<VideoDecoder> video;
  std::optional<VideoEncoder> video_encoder;
  std::optional<AudioDecoder> audio;
  std::optional<Vocoder> vocoder;
  std::unique_ptr<Adapters> adapters;  // of all of these; null in a dry run
};

LatentScale ScaleOf(const ModelConfig& config);

// Which upscaling the upsampler computes: FindUpscaling's names; "" if none.
std::string_view UpscalingOf(const UpsamplerConfig& upsampler);

struct DescribedParts {
  std::string_view kind;        // from the files, or as the caller says
  bool distilled_lora = false;  // is given
};
// Limits and defaults that follow from the configuration. max_tokens is left 0: it depends on the memory.
ModelDescription Describe(const ModelConfig& config, const DescribedParts& parts);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_MODULES_H_
