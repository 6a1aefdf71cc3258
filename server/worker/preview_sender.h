// Previews of a run, from the latents that its observer gets to the frontend.
#ifndef KINORA_SERVER_WORKER_PREVIEW_SENDER_H_
#define KINORA_SERVER_WORKER_PREVIEW_SENDER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/model.h"
#include "server/worker/rank.h"

namespace kinora {

class PreviewSender {
 public:
  // All must outlive it.
  PreviewSender(const RunContext& context, const v1::Run& run, const PreparedRun& prepared)
      : context_(context), run_(run), prepared_(prepared), every_(run.output().preview_every_steps()) {}

  // Of the model, before its Generate, if the run asks for previews. Where it cannot make them, for want of memory,
  // that is logged, and the run goes on without. Otherwise what failed, which is the run's failure.
  absl::Status Prepare(const Model::GoOn& go_on);

  bool WantsStep(int64_t step) const { return every_ > 0 && step % every_ == 0; }
  // Nothing if the stage denoises no picture. The device's failure.
  absl::Status Send(const Progress& progress, const StepLatents& latents) const;

 private:
  const RunContext& context_;
  const v1::Run& run_;
  const PreparedRun& prepared_;
  int32_t every_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PREVIEW_SENDER_H_
