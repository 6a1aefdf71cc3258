// Makes previews of a run from the latents of its steps and sends them to the frontend.
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
  // The caller must keep all arguments alive while this object lives.
  PreviewSender(const RunContext& context, const v1::Run& run, const PreparedRun& prepared)
      : context_(context), run_(run), prepared_(prepared), every_(run.output().preview_every_steps()) {}

  // Prepares the model's previews if the run requests them; to be called before Generate. If the model cannot make
  // previews, logs it and returns OK; the run then has none. Any other error fails the run.
  absl::Status Prepare(const Model::GoOn& go_on);

  bool WantsStep(int64_t step) const { return every_ > 0 && step % every_ == 0; }
  // Sends a preview, or nothing if the stage does not denoise a picture. Fails with the device's error.
  absl::Status Send(const Progress& progress, const StepLatents& latents) const;

 private:
  const RunContext& context_;
  const v1::Run& run_;
  const PreparedRun& prepared_;
  int32_t every_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PREVIEW_SENDER_H_
