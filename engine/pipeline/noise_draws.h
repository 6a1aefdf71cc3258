// The noise of a run: its initial latents, and the samplers' noise if the request gives it. Every rank draws all of it,
// in the reference's order: within a stage first video, then appended tokens, then audio. The decoder's follow
// (decoder_noise.h).
#ifndef KINORA_ENGINE_PIPELINE_NOISE_DRAWS_H_
#define KINORA_ENGINE_PIPELINE_NOISE_DRAWS_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/diffusion/noise.h"
#include "engine/diffusion/sampler.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

// Fails with InvalidArgument, naming the tensor, if given noise has not the shape that a run needs.
absl::Status CheckGivenShape(std::string_view name, const HostArray& given, const Shape& needed);

class NoiseDraws {
 public:
  // Both must outlive the object.
  NoiseDraws(const ModelConfig& config, const RunPlan& plan)
      : config_(config), plan_(plan), source_(plan.request.seed) {}

  // Returns the initial noise of the next denoising stage, for each modality that is denoised: [tokens, channels],
  // appended tokens last. Given noise replaces noise that was drawn, so later draws stay the same. dry: only checks
  // shapes. Fails with InvalidArgument, naming the tensor, if given noise has another shape than the stage needs.
  absl::StatusOr<PerModality<std::vector<float>>> Begin(const StagePlan& stage, bool dry);
  // Returns the noise that the request gives in place of the samplers' own in the stage of the last Begin. Fails like
  // Begin.
  absl::StatusOr<PerModality<GivenStepNoise>> OfSamplers(const StagePlan& stage) const;
  // The generator of the run; of the decoder's noise (decoder_noise.h) once all stages have begun.
  NoiseSource& source() { return source_; }

 private:
  // Returns the given noise, packed, one draw after the other; empty if it is not given or has no elements.
  absl::StatusOr<std::vector<float>> Given(const NoiseDraw& draw, const StagePlan& stage, int64_t draws) const;
  Shape ShapeOf(const NoiseDraw& draw, const StagePlan& stage, int64_t draws) const;
  void Pack(const NoiseDraw& draw, const StagePlan& stage, absl::Span<const float> from, absl::Span<float> to) const;
  std::vector<float> DrawVideo(const StagePlan& stage);
  std::vector<float> DrawAudio(const StagePlan& stage);

  const ModelConfig& config_;
  const RunPlan& plan_;
  NoiseSource source_;  // shared by all stages
  int stage_ = 0;       // number of calls of Begin
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_NOISE_DRAWS_H_
