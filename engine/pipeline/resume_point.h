// The state of a run between two denoising steps. A run that continues from it makes, to the bit on a CPU, the clip of
// the run that it was taken from, if model, LoRAs, request, mesh, device and build are the same.
#ifndef KINORA_ENGINE_PIPELINE_RESUME_POINT_H_
#define KINORA_ENGINE_PIPELINE_RESUME_POINT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "engine/diffusion/latent_state.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/run_plan.h"
#include "engine/request/given_noise.h"

namespace kinora {

struct ResumePoint {
  int64_t stage = 0;  // index in RunPlan::stages; a denoising stage
  int64_t step = 0;   // evaluations of that stage's sampler that are done, from 1 to StagePlan::steps
  // What later steps and stages read of earlier ones: latents ("video.z", "audio.z"), predictions that skip_step holds
  // ("video.x0"), the sampler's own ("video.anchor"), sound that an earlier stage finished ("sound"). Each is
  // [tokens, channels]. Noise is not in it: it is drawn again from the request's seed.
  std::map<std::string, HostArray> values;
};

// Whether a resume point of a later stage holds all that a stage of this kind computes, so that a run that continues
// there passes over the stage.
constexpr bool IsHeldLater(StageKind kind) { return kind == StageKind::kDenoise || kind == StageKind::kUpsample; }
// Fails with InvalidArgument, naming the value, unless `point` lies in a denoising stage of the plan and holds what the
// stage carries, no less and no more.
absl::Status CheckResumePoint(const RunPlan& plan, const ResumePoint& point);
// Sets the values to those of the tensors. Waits for the device.
absl::Status TakeValues(Exec& exec, const CarriedTensors& carried, ResumePoint& point);
// Sets the tensors on every rank to the values of rank 0's `point`, which other ranks do not read. All ranks agree on a
// failure: InvalidArgument, naming the value, if it is missing or has another shape than its tensor.
absl::Status RestoreValues(Exec& exec, const ResumePoint* point, const CarriedTensors& carried);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_RESUME_POINT_H_
