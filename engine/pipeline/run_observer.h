// Callbacks of a run in progress: progress, previews, dumps. Called on rank 0 only, on the run's thread. An error ends
// the run on every rank, at the latest by the next step. Every Tensor passed as a value is contiguous, in host memory,
// and valid only during the call.
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
#include "engine/pipeline/resume_point.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

// Latents after a denoising step. They are in device memory; read them with copies on exec.ops.stream().
struct StepLatents {
  Exec& exec;
  const StagePlan& stage;
  const PerModality<LatentState>& state;
  // The last predictions of the clean latents, [tokens, channels] f32. Undefined for a modality that is not denoised.
  const PerModality<Tensor>& x0;
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // Called at the start of a stage, with step 0.
  virtual absl::Status OnStage(const Progress& /*progress*/) { return absl::OkStatus(); }
  // Returns whether OnStep wants the latents after step `step` (1 to `steps`) of a denoising stage. If so, the next
  // step waits for OnStep. Called for every step before the stage's first step.
  virtual bool WantsLatents(int64_t /*step*/, int64_t /*steps*/) const { return false; }
  // Called after each step of a stage. latents: null unless WantsLatents returned true.
  virtual absl::Status OnStep(const Progress& /*progress*/, const StepLatents* /*latents*/) { return absl::OkStatus(); }
  // Returns whether OnResumePoint wants the state after this step of a denoising stage. Called when the step has been
  // enqueued, which may be before the device has done it.
  virtual bool WantsResumePoint(const Progress& /*progress*/) { return false; }
  // The device has nothing to do until this returns.
  virtual void OnResumePoint(ResumePoint&& /*point*/) {}
  // Called during work that has no steps: after each weight when LoRAs are applied, between the parts of a tile when a
  // diffusion decoder makes frames.
  virtual absl::Status OnWork() { return absl::OkStatus(); }

  // For inspection (`kinora-render --dump`). True: Intermediate and FloatFrames are called; the run may be slower.
  virtual bool WantsIntermediates() const { return false; }
  // name: as documented for --dump: "input_ids", "video_context", "audio_context", both also with "_negative",
  // "sigmas", "sigmas_stage2", "video_latent", "audio_latent". All calls precede the sink's Begin.
  virtual absl::Status Intermediate(std::string_view /*name*/, const Tensor& /*value*/) { return absl::OkStatus(); }
  // Frames before rounding to 8 bits: float32 [n, height, width, 3] in 0..1. Called just before ClipSink::Frames with
  // the same frames.
  virtual absl::Status FloatFrames(int64_t /*first*/, const Tensor& /*rgb*/) { return absl::OkStatus(); }
};

// Observes progress only: calls `report` for stages and steps, and `on_work` for OnWork.
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
