// Reports on a planned run, made from its plan and the loaded model.
#ifndef KINORA_SERVER_WORKER_RUN_REPORTS_H_
#define KINORA_SERVER_WORKER_RUN_REPORTS_H_

#include "engine/pipeline/pipeline.h"
#include "engine/request/model_description.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/model.h"
#include "server/worker/speed.h"
#include "server/worker/worker_memory.h"

namespace kinora {

// Time, memory and operations of the run; whether it fits `reserved`, and if it does not, the nearest clip that does.
v1::Estimate EstimateRun(const PreparedRun& run, const Speed& speed, const WorkerMemory& reserved,
                         const Pipeline& pipeline);

// The seconds that a stage of the run's plan, or finalizing, is expected to take; 0 if unknown.
double ExpectedStageSeconds(const PreparedRun& run, Stage stage, const Speed& speed);

// The model that ResolveRun reports.
struct ResolvedModel {
  const v1::Ready& ready;
  const ModelDescription& description;
  double full_distilled_strength = 1;  // the distilled LoRA's; plans hold fractions of it
};

// Everything that is needed to compute the clip again, for Video.resolved.
v1::Resolved ResolveRun(const PreparedRun& run, const ResolvedModel& model);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RUN_REPORTS_H_
