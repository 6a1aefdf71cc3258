// The noise of a run: its initial latents, and the samplers' noise if the request gives it. Every rank draws all of it,
// in the reference's order: within a stage first video, then appended tokens, then audio; at last the decoder's.
#ifndef KINORA_ENGINE_PIPELINE_NOISE_DRAWS_H_
#define KINORA_ENGINE_PIPELINE_NOISE_DRAWS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/diffusion/noise.h"
#include "engine/diffusion/sampler.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

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
  // Makes the decoder's next draw (FrameDecoder::NoiseDraws), after those of all stages. Given noise replaces what was
  // drawn. Uses the host's threads. If ops are only counted, it only checks the shape. Fails like Begin.
  struct DecoderDraw {
    int64_t draw = 0, draws = 0;  // number `draw` of `draws`
    Shape shape;
    absl::Span<float> to;  // empty: only the draw's random bits are used up
  };
  absl::Status OfDecoder(Exec& exec, const DecoderDraw& decoder);

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
