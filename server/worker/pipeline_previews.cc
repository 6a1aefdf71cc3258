#include "server/worker/pipeline_previews.h"

#include <string>

#include "engine/base/cache_folder.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/worker/preview_maps.h"

namespace kinora {

// Not at load, so that a worker whose clients request no previews pays nothing; others pay once per decoder and
// machine.
absl::Status PipelinePreviews::Prepare(Pipeline& pipeline, const v1::Ready& ready, const Model::GoOn& go_on) {
  if (map_) return absl::OkStatus();
  const PreviewMaps maps(CacheFolder());
  const std::string key = PreviewMaps::Key(ready.model().digests(), ready.precision());
  map_ = maps.Find(key, pipeline.config().video_decoder.latent_channels);
  if (map_) return absl::OkStatus();
  const absl::Time begin = Clock::Steady().Now();
  KINORA_ASSIGN_OR_RETURN(map_, pipeline.FitLatentToRgb(go_on));
  Log(Severity::kInfo, "previews_fitted", {{"seconds", absl::ToDoubleSeconds(Clock::Steady().Now() - begin)}});
  maps.Keep(key, *map_);
  return absl::OkStatus();
}

absl::StatusOr<PreviewPicture> PipelinePreviews::Make(const StepLatents& latents) const {
  if (!map_) return absl::FailedPreconditionError("previews: not prepared");
  return MakePreview(latents.exec, *map_, latents.stage.grid, latents.x0.video);
}

}  // namespace kinora
