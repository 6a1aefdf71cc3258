// What the pipeline's model makes previews by.
#include "engine/base/cache_folder.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/latent_preview.h"
#include "server/worker/pipeline_model.h"
#include "server/worker/preview_maps.h"

namespace kinora {

// Not at load: who asks for no previews pays nothing, and who does pays once for each decoder on this machine.
absl::Status PipelineModel::PreparePreviews(const GoOn& go_on) {
  if (preview_map_) return absl::OkStatus();
  Pipeline& pipeline = *ranks_[0].pipeline;
  const PreviewMaps maps(CacheFolder());
  const std::string key = PreviewMaps::Key(ready_.model().digests(), ready_.precision());
  preview_map_ = maps.Find(key, pipeline.config().video_decoder.latent_channels);
  if (preview_map_) return absl::OkStatus();
  const absl::Time begin = Clock::Steady().Now();
  KINORA_ASSIGN_OR_RETURN(preview_map_, pipeline.FitLatentToRgb(go_on));
  Log(Severity::kInfo, "previews_fitted", {{"seconds", absl::ToDoubleSeconds(Clock::Steady().Now() - begin)}});
  maps.Keep(key, *preview_map_);
  return absl::OkStatus();
}

absl::StatusOr<PreviewPicture> PipelineModel::Preview(const StepLatents& latents) {
  if (!preview_map_) return absl::FailedPreconditionError("previews: not prepared");
  return MakePreview(latents.exec, *preview_map_, latents.stage.grid, latents.x0.video);
}

}  // namespace kinora
