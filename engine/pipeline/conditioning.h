// Conditioning latents: images, clips, and the parts of a retake that are kept. A denoising stage blends them into its
// latent (docs/model.md "Masks"; ltx_core/conditioning/types).
//
//   A guide at frame 0 replaces the clip's first latent frames. Any other guide, and one with ConditionInput::append,
//   is appended: its tokens follow those of the grid, have the positions of the guide's own time, take part in
//   attention, and are dropped after the stage.
//   mask = 1 − strength. The initial latent becomes z = clean + mask·(z − clean), and each prediction likewise.
//   A retake is a guide at frame 0 whose mask is 1 in the latents that its window overlaps and 0 elsewhere
//   (ltx_pipelines/retake.py); its clip's sound likewise. Latents beyond the end of its clip begin as noise alone.
#ifndef KINORA_ENGINE_PIPELINE_CONDITIONING_H_
#define KINORA_ENGINE_PIPELINE_CONDITIONING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/diffusion/latent_state.h"
#include "engine/diffusion/latents.h"
#include "engine/model/video_encoder.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/tiling.h"
#include "engine/request/given_sound.h"
#include "engine/request/request.h"
#include "engine/request/upscaling.h"

namespace kinora {

// One picture or clip in one denoising stage.
struct GuidePlan {
  std::shared_ptr<const PixelClip> pixels;  // null if the input was not read; no `rgb` on ranks that do not encode it
  TilePlan tiles;                           // of the encoder; tiles.grid is the grid of the guide's latent
  int64_t frame = 0;                        // first frame, in frames of the stage
  int64_t every = 1;                        // one of so many frames of the clip is used
  bool appended = false;
  std::vector<float> mask;  // per latent frame of the guide

  const LatentGrid& grid() const { return tiles.grid; }
  int64_t appended_tokens() const { return appended ? grid().tokens() : 0; }
};

// Size and rate of a denoising stage. frame_rate: of the stage, which is the clip's divided by `time`.
struct GuidedStage {
  LatentGrid grid;
  double frame_rate = 0;
  int64_t time = 1;
};

// Plans the guides of a resolved request in one stage. A clip that was not read is assumed to be as long as possible.
absl::StatusOr<std::vector<GuidePlan>> PlanGuides(const ModelConfig& config, const GenerationRequest& request,
                                                  const GuidedStage& stage);

// The sound of a retake's clip.
struct HeldSound {
  SoundSpan span{};           // the part that is encoded
  std::vector<float> mask{};  // per audio latent; empty: no sound is kept
};
HeldSound PlanHeldSound(const GenerationRequest& request, int64_t audio_latents, const LatentScale& scale);

int64_t AppendedTokens(absl::Span<const GuidePlan> guides);

// Returns VideoPositions, followed by the positions of the appended tokens.
std::vector<std::vector<float>> GuidedPositions(absl::Span<const GuidePlan> guides, const GuidedStage& stage);

// A guide and its latent.
struct GuideLatent {
  const GuidePlan* guide;
  Tensor latent;  // [frames, height, width, channels] f32, normalised
};
// Encodes the guides into their latents, which become equal on all ranks of exec.mesh.world(). Every rank must call it;
// only rank 0 needs pixels, which are cropped and resized to the guides' grids. on_round: as in VideoEncodeStage.
// Temporaries come from exec.arena. Fails with FailedPrecondition if a guide was not read.
absl::Status EncodeGuides(Exec& exec, const VideoEncoder& encoder, absl::Span<const GuideLatent> guides,
                          absl::FunctionRef<absl::Status(int64_t done)> on_round);

// Adds guides to the initial latent of a stage: sets state.clean and state.mask and blends state.z. latents: one per
// guide. Does nothing without guides. Allocates from exec.arena.
void BlendGuides(Exec& exec, absl::Span<const GuidePlan> guides, absl::Span<const Tensor> latents, LatentState& state);
// Sets z to clean + mask·(z − clean).
void BlendClean(Exec& exec, const LatentState& state);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_CONDITIONING_H_
