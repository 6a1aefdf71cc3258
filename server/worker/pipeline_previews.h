// The previews of a worker's runs, and the map from latents to RGB that they are made with.
#ifndef KINORA_SERVER_WORKER_PIPELINE_PREVIEWS_H_
#define KINORA_SERVER_WORKER_PIPELINE_PREVIEWS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/pipeline/latent_preview.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/run_observer.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/model.h"

namespace kinora {

class PipelinePreviews {  // one thread
 public:
  // Finds the map of the pipeline's video decoder in the cache folder, or fits it and keeps it there; returns at once
  // if it has one. `ready`: describes the pipeline's model. go_on and errors: as Model::PreparePreviews.
  absl::Status Prepare(Pipeline& pipeline, const v1::Ready& ready, const Model::GoOn& go_on);

  // As Model::Preview. Fails with FailedPrecondition before Prepare has succeeded.
  absl::StatusOr<PreviewPicture> Make(const StepLatents& latents) const;

 private:
  std::optional<LatentToRgb> map_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PIPELINE_PREVIEWS_H_
