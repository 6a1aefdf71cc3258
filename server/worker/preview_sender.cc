#include "server/worker/preview_sender.h"

#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "server/worker/preview_jpeg.h"

namespace kinora {

absl::Status PreviewSender::Prepare(const Model::GoOn& go_on) {
  if (every_ <= 0) return absl::OkStatus();
  const absl::Status status = context_.model.PreparePreviews(go_on);
  if (!absl::IsResourceExhausted(status) && !absl::IsFailedPrecondition(status) && !absl::IsUnimplemented(status)) {
    return status;
  }
  every_ = 0;
  Log(Severity::kWarning, "no_previews", {{"job", run_.video_id()}, {"why", status.ToString()}});
  return absl::OkStatus();
}

absl::Status PreviewSender::Send(const Progress& progress, const StepLatents& latents) const {
  if (!latents.x0.video.defined()) return absl::OkStatus();
  const TraceSpan span("step", "preview");
  KINORA_ASSIGN_OR_RETURN(const PreviewPicture picture, context_.model.Preview(latents));
  const GenerationRequest& request = prepared_.plan.request;
  v1::WorkerMessage message;
  v1::PreviewMark& mark = *message.mutable_preview();
  mark.set_video_id(run_.video_id());
  mark.set_attempt(run_.attempt());
  v1::Preview& preview = *mark.mutable_preview();
  preview.set_image(PreviewJpeg(picture, request.width, request.height));
  preview.set_media_type("image/jpeg");
  preview.set_step(progress.step);
  preview.set_stage(std::string(progress.stage.name()));
  context_.send(message);
  return absl::OkStatus();
}

}  // namespace kinora
