// Who follows a run while it happens: progress, previews, dumps. On rank 0 only, from the thread of the run. What a
// call returns, unless OK, ends the run on every rank by the next step. Every Tensor of a value is contiguous, in host
// memory and valid during the call only.
#ifndef KINORA_ENGINE_PIPELINE_RUN_OBSERVER_H_
#define KINORA_ENGINE_PIPELINE_RUN_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/per_modality.h"
#include "engine/diffusion/latent_state.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

// What a denoising step left behind. The latents are the device's: read by copies on exec.ops.stream().
struct StepLatents {
  Exec& exec;
  const StagePlan& stage;
  const PerModality<LatentState>& state;
  const PerModality<Tensor>& x0;  // the last predictions of the clean latents, [tokens, channels] f32; undefined: none
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // A stage begins: step 0.
  virtual absl::Status OnStage(const Progress& /*progress*/) { return absl::OkStatus(); }
  // Whether OnStep gets the latents that step `step` (1 to `steps`) of a denoising stage leaves: the next one waits for
  // it. Asked of every step before the first.
  virtual bool WantsLatents(int64_t /*step*/, int64_t /*steps*/) const { return false; }
  // A step of it is done. latents: null unless they are wanted.
  virtual absl::Status OnStep(const Progress& /*progress*/, const StepLatents* /*latents*/) { return absl::OkStatus(); }
  // Work that is no step: LoRAs are put on, a weight at a time.
  virtual absl::Status OnWork() { return absl::OkStatus(); }

  // For inspection (`kinora-render --dump`). Who answers true also gets what the pipeline would otherwise not keep; the
  // run may be slower.
  virtual bool WantsIntermediates() const { return false; }
  // name: as in the contract of --dump: "input_ids", "video_context", "audio_context", both with "_negative", "sigmas",
  // "sigmas_stage2", "video_latent", "audio_latent". All of them come before the sink's Begin.
  virtual absl::Status Intermediate(std::string_view /*name*/, const Tensor& /*value*/) { return absl::OkStatus(); }
  // The frames before rounding to 8 bits: float32 [n, height, width, 3] in 0..1. Called just before the equal
  // ClipSink::Frames.
  virtual absl::Status FloatFrames(int64_t /*first*/, const Tensor& /*rgb*/) { return absl::OkStatus(); }
};

// Progress alone, as one function of stages and steps, and one of work besides.
class ProgressObserver : public RunObserver {
 public:
  explicit ProgressObserver(
      std::function<absl::Status(const Progress&)> report,
      std::function<absl::Status()> on_work = [] { return absl::OkStatus(); })
      : report_(std::move(report)), on_work_(std::move(on_work)) {}
  absl::Status OnStage(const Progress& progress) override { return report_(progress); }
  absl::Status OnStep(const Progress& progress, const StepLatents*) override { return report_(progress); }
  absl::Status OnWork() override { return on_work_(); }

 private:
  const std::function<absl::Status(const Progress&)> report_;
  const std::function<absl::Status()> on_work_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_RUN_OBSERVER_H_
