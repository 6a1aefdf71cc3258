// One resolved request on one rank, start to finish. The same code runs for real and dry.
#ifndef KINORA_ENGINE_PIPELINE_GENERATION_H_
#define KINORA_ENGINE_PIPELINE_GENERATION_H_

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/modules.h"
#include "engine/pipeline/stage.h"
#include "engine/request/request.h"

namespace kinora {

enum class Phase { kEncode, kDenoise, kDecodeVideo, kDecodeAudio };
inline constexpr int kPhases = 4;
std::string_view PhaseName(Phase phase);  // Progress::stage

// The noise levels that a resolved request is denoised through, the final 0 last. grid_tokens: of its video latent.
std::vector<float> NoiseLevels(const SchedulerConfig& scheduler, const GenerationRequest& request, int64_t grid_tokens);

class Generation {
 public:
  // Called at the start of a phase (step 0) and after each of its steps; total 0: not counted. On rank 0.
  using OnStep = absl::FunctionRef<absl::Status(Phase phase, int64_t step, int64_t total)>;

  // request: as ResolveRequest returns it. sink: null on ranks other than 0 and in a dry run. All must outlive the
  // object. dry_tokens: of the prompt and the negative prompt, which a dry run does not read; absent: the longest there
  // can be.
  Generation(const ModelConfig& config, const Modules& modules, const GenerationRequest& request, ClipSink* sink,
             std::optional<std::array<int64_t, 2>> dry_tokens = std::nullopt);

  // InvalidArgument naming the tensor if given noise has another shape than the request needs.
  absl::Status Run(Exec& exec, OnStep on_step);

 private:
  struct Latents {
    Tensor video;  // [padded tokens, channels] f32
    Tensor audio;  // [audio tokens, channels] f32
  };

  absl::Status Encode(Exec& exec, PromptContext& cond, PromptContext& uncond);
  absl::Status MakeNoise(Exec& exec, const Latents& z) const;
  absl::Status DenoiseLatents(Exec& exec, const PromptContext& cond, const PromptContext& uncond, Latents z,
                              OnStep on_step);
  absl::Status DecodeVideo(Exec& exec, const Tensor& latent, OnStep on_step);
  absl::Status ReportAudioLatent(Exec& exec, const Tensor& latent);
  absl::Status DecodeAudio(Exec& exec, const Tensor& latent);

  absl::Status EncodeDry(Exec& exec, PromptContext& cond, PromptContext& uncond);
  absl::Status ReportText(Exec& exec, const PromptContext& cond, const PromptContext& uncond);
  absl::Status ReportContexts(Exec& exec, const PromptContext& context, std::string_view suffix);
  ClipInfo Info() const;
  std::vector<float> Sigmas() const { return NoiseLevels(config_.scheduler, request_, grid_.tokens()); }
  bool wants_intermediates() const { return sink_ != nullptr && sink_->WantsIntermediates(); }

  const ModelConfig& config_;
  const Modules& modules_;
  const GenerationRequest& request_;
  ClipSink* const sink_;
  const std::optional<std::array<int64_t, 2>> dry_tokens_;
  const LatentScale scale_;
  const VideoGrid grid_;
  const int64_t audio_latents_;
  const GuidanceScales video_scales_, audio_scales_;
  const PassList passes_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_GENERATION_H_
