// Reports intermediate tensors to the observer (RunObserver::Intermediate).
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/pipeline/generation.h"

namespace kinora {
namespace {

Tensor HostView(std::vector<float>& values, const Shape& shape) { return Tensor(DType::kF32, shape, values.data()); }

}  // namespace

absl::Status Generation::ReportText(Exec& exec) {
  if (!inspected()) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, modules_.text->Tokenize(request_.prompt));
  std::vector<int64_t> wide(ids.begin(), ids.end());
  KINORA_RETURN_IF_ERROR(
      observer_->Intermediate("input_ids", Tensor(DType::kI64, {static_cast<int64_t>(wide.size())}, wide.data())));
  KINORA_RETURN_IF_ERROR(ReportContexts(exec, cond_, ""));
  return guided() ? ReportContexts(exec, uncond_, "_negative") : absl::OkStatus();
}

absl::Status Generation::ReportContexts(Exec& exec, const TextContext& context, std::string_view suffix) {
  for (const auto& [name, value] : {std::pair("video_context", context.video), {"audio_context", context.audio}}) {
    if (!value.defined()) continue;
    ArenaScope temp(exec.arena);
    Tensor wide = temp.Alloc(DType::kF32, value.shape());
    exec.ops.stream().Copy(value, wide);
    std::vector<float> host(value.elements());
    exec.ops.stream().CopyToHost(wide, host.data());
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    KINORA_RETURN_IF_ERROR(observer_->Intermediate(Cat(name, suffix), HostView(host, {1, value.dim(0), value.dim(1)})));
  }
  return absl::OkStatus();
}

absl::Status Generation::ReportSigmas(const StagePlan& stage) {
  if (!inspected()) return absl::OkStatus();
  std::vector<float> copy = stage.sigmas;
  const char* const name = stage.noise_scale == 1 ? "sigmas" : "sigmas_stage2";
  return observer_->Intermediate(name, HostView(copy, {static_cast<int64_t>(copy.size())}));
}

absl::Status Generation::ReportVideoLatent(Exec& exec) {
  if (!inspected() || !plan_.denoised.video) return absl::OkStatus();
  const Tensor latent = VideoLatent();
  const int64_t channels = latent.width();
  std::vector<float> tokens(latent.elements()), host(latent.elements());
  exec.ops.stream().CopyToHost(latent, tokens.data());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  Transpose(tokens, latent.rows(), channels, absl::MakeSpan(host));
  return observer_->Intermediate("video_latent",
                                 HostView(host, {1, channels, latent.dim(0), latent.dim(1), latent.dim(2)}));
}

absl::Status Generation::ReportAudioLatent(Exec& exec) {
  if (!inspected()) return absl::OkStatus();
  const Tensor& latent = sound_;
  const int64_t channels = config_.audio_decoder.latent_channels, bins = config_.audio_decoder.latent_bins();
  std::vector<float> packed(latent.elements()), host(latent.elements());
  exec.ops.stream().CopyToHost(latent, packed.data());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  UnpackAudio(packed, channels, plan_.audio_latents, bins, absl::MakeSpan(host));
  return observer_->Intermediate("audio_latent", HostView(host, {1, channels, plan_.audio_latents, bins}));
}

}  // namespace kinora
