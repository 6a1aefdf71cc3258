// The modules of a model: loaded with weights, or dry, without memory, to compute what a request costs.
#ifndef KINORA_ENGINE_PIPELINE_MODULES_H_
#define KINORA_ENGINE_PIPELINE_MODULES_H_

#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "engine/config/model_config.h"
#include "engine/diffusion/latents.h"
#include "engine/model/audio_decoder.h"
#include "engine/model/audio_encoder.h"
#include "engine/model/decoder_border.h"
#include "engine/model/duration_head.h"
#include "engine/model/latent_upsampler.h"
#include "engine/model/mel_front_end.h"
#include "engine/model/text_encoder.h"
#include "engine/model/transformer.h"
#include "engine/model/video_encoder.h"
#include "engine/model/vocoder.h"
#include "engine/pipeline/adapters.h"
#include "engine/pipeline/frame_decoder.h"
#include "engine/request/model_description.h"

namespace kinora {

struct Modules {
  struct Options {
    std::unique_ptr<const Tokenizer> tokenizer;  // null in a dry run
    std::shared_ptr<FactorCache> lora_cache;
    int64_t text_cache_bytes = 0;
    Residence text_encoder = Residence::kResident;         // of Gemma's weights, which are most of the text encoder
    Modalities modalities = Modalities::kBoth;             // kSound: no video modules, for requests for sound only
    DecoderBorder decoder_border = DecoderBorder::kShift;  // of the diffusion decoder
    // False: no duration head, audio encoder, audio decoder or vocoder, which only rank 0 runs.
    bool rank_zero = true;
  };
  // root: of the whole checkpoint. Fails with InvalidArgument if the model has no text encoder. Errors of the loader
  // are reported by its Finish.
  static absl::StatusOr<Modules> Load(const WeightLoader& root, const ModelConfig& config, Options options,
                                      absl::FunctionRef<void(std::string_view phase)> on_phase);

  std::unique_ptr<TextEncoder> text;
  std::optional<DurationHead> duration_head;  // if its file was given; rank 0 alone runs it
  std::unique_ptr<Transformer> transformer;
  std::optional<LatentUpsampler> spatial_upsampler, temporal_upsampler;  // if their files were given
  std::optional<AudioEncoder> audio_encoder;                             // if the model has one
  std::optional<MelFrontEnd> mel;                                        // present with audio_encoder
  std::unique_ptr<FrameDecoder> video;
  std::optional<VideoEncoder> video_encoder;
  std::optional<AudioDecoder> audio;
  std::optional<Vocoder> vocoder;
  std::unique_ptr<Adapters> adapters;  // for the weights of all modules; null in a dry run
};

LatentScale ScaleOf(const ModelConfig& config);

// Returns the name of the upscaling that the upsampler computes, as in FindUpscaling; "" if there is none.
std::string_view UpscalingOf(const UpsamplerConfig& upsampler);

struct DescribedParts {
  std::string_view kind;        // "dev", "distilled" or "" (unknown)
  bool distilled_lora = false;  // the model has its distilled LoRA
};
// Returns the limits and defaults that follow from the configuration. max_tokens is 0: it depends on the memory.
ModelDescription Describe(const ModelConfig& config, const DescribedParts& parts);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_MODULES_H_
