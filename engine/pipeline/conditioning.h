// What a request shows of its video before it is made: pictures, clips and what a retake keeps, as latents that a
// denoising stage blends in (docs/model.md "Masks"; ltx_core/conditioning/types).
//
//   A guide at the clip's beginning stands in the place of its latent frames. Any other one, and one of
//   ConditionInput::append, is appended: tokens behind those of the grid, at its own place in time, which attend and
//   are attended to, and which are dropped after the stage.
//   mask = 1 − strength: z = clean + mask·(z − clean) at the beginning, and of each prediction the same.
//   A retake is a guide at the beginning, whose mask is 1 in the latents that its window meets and 0 elsewhere
//   (ltx_pipelines/retake.py), and the same of its clip's sound. What the clip is too short for is noise alone.
#ifndef KINORA_ENGINE_PIPELINE_CONDITIONING_H_
#define KINORA_ENGINE_PIPELINE_CONDITIONING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/diffusion/latent_state.h"
#include "engine/diffusion/latents.h"
#include "engine/model/config.h"
#include "engine/model/video_encoder.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/tiling.h"
#include "engine/request/given_sound.h"
#include "engine/request/request.h"
#include "engine/request/upscaling.h"

namespace kinora {

// One picture or clip in one denoising stage.
struct GuidePlan {
  std::shared_ptr<const PixelClip> pixels;  // null in a plan of what nobody has read; without `rgb` where not encoded
  TilePlan tiles;                           // of the encoder: tiles.grid is that of the guide's latent
  int64_t frame = 0;                        // of the stage, at which it begins
  int64_t every = 1;                        // of the clip's frames one is taken
  bool appended = false;
  std::vector<float> mask;  // of each of its latent frames

  const LatentGrid& grid() const { return tiles.grid; }
  int64_t appended_tokens() const { return appended ? grid().tokens() : 0; }
};

// A stage of the size `grid` at `frame_rate`, which is that of the whole clip over `time`.
struct GuidedStage {
  LatentGrid grid;
  double frame_rate = 0;
  int64_t time = 1;
};

// Of a resolved request. A clip that nobody has read counts as the longest that it may be.
absl::StatusOr<std::vector<GuidePlan>> PlanGuides(const ModelConfig& config, const GenerationRequest& request,
                                                  const GuidedStage& stage);

// The sound of a retake's clip.
struct HeldSound {
  SoundSpan span{};           // that is encoded
  std::vector<float> mask{};  // of each audio latent; empty: there is none
};
HeldSound PlanHeldSound(const GenerationRequest& request, int64_t audio_latents, const LatentScale& scale);

int64_t AppendedTokens(absl::Span<const GuidePlan> guides);

// VideoPositions, then those of the appended tokens.
std::vector<std::vector<float>> GuidedPositions(absl::Span<const GuidePlan> guides, const GuidedStage& stage);

// A guide, and where its latent goes: [frames, height, width, channels] f32, normalised.
struct GuideLatent {
  const GuidePlan* guide;
  Tensor latent;
};
// The same on every rank of exec.mesh.world(), all of which call it; rank 0 has the pictures. Cut and resized to the
// guides' grids. Temporaries come from exec.arena. on_round: as VideoEncodeStage's.
absl::Status EncodeGuides(Exec& exec, const VideoEncoder& encoder, absl::Span<const GuideLatent> guides,
                          absl::FunctionRef<absl::Status(int64_t done)> on_round);

// From a latent of noise, and of what stages before left, to what the stage begins from: sets clean and mask, blends z.
// latents: of each guide. Does nothing without guides. Allocates from exec.arena.
void BlendGuides(Exec& exec, absl::Span<const GuidePlan> guides, absl::Span<const Tensor> latents, LatentState& state);
// z becomes clean + mask·(z − clean).
void BlendClean(Exec& exec, const LatentState& state);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_CONDITIONING_H_
