// Part "decode": the video decoders at the released shapes, with random weights.
#include "engine/base/status_macros.h"
#include "engine/model/video_decoder.h"
#include "tests/gpu_check/diffusion_decode.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/synthetic_model.h"
#include "tests/gpu_check/timed_module.h"

namespace kinora {
namespace {

struct Goal {
  double seconds, peers;  // for a clip of 768 x 512 x 121
};
Goal GoalOf(const std::string& family) { return family == "2.0" ? Goal{0.20, 0.92} : Goal{0.30, 0.92}; }

absl::Status Decode(const std::string& family, const Settings& settings, Backend& backend,
                    const SyntheticWeights& weights, Report& report) {
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, SyntheticConfig(settings, family));
  const auto load = [&](const WeightLoader& loader) {
    return VideoDecoder::Load(loader.Under("vae"), config.video_decoder);
  };
  KINORA_ASSIGN_OR_RETURN(auto checkpoint,
                          weights.CheckpointFor([&](const WeightLoader& loader) { return load(loader).status(); }));
  const auto mesh = Mesh::Single();
  KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(std::move(checkpoint), *mesh, backend, DType::kBF16));
  KINORA_ASSIGN_OR_RETURN(const VideoDecoder decoder, load(loader));
  KINORA_RETURN_IF_ERROR(loader.Finish());

  const int64_t channels = config.video_decoder.latent_channels;
  const Shape latent = settings.small ? Shape{1, 2, 2, channels} : Shape{16, 16, 24, channels};
  KINORA_RETURN_IF_ERROR(decoder.CheckLatent(latent));
  const Goal goal = GoalOf(family);
  const TimedModule module{
      .table = "video decoder",
      .name = family,
      .shown = "frames",
      .in = latent,
      .out = decoder.OutputShape(latent),
      .shape = decoder.OutputShape(latent),
      .forward = [&](Exec& exec, const Tensor& z, Tensor frames) { decoder.Forward(exec, z, frames); },
      .goals = {{"target", settings.small ? Json() : Json("T7")},
                {"goal ms", settings.small ? Json() : Json(goal.seconds * 1e3)},
                {"peers' ms", settings.small ? Json() : Json(goal.peers * 1e3)}}};
  return TimeModule(module, settings, backend, report);
}

}  // namespace

void CheckDecode(const Settings& settings, Report& report) {
  const auto backend = OpenBackend("cuda", {.threads = settings.threads});
  if (!backend.ok()) return report.NotAvailable(std::string(backend.status().message()));
  const auto weights = SyntheticWeights::Make(settings);
  if (!weights.ok()) return report.Fail("drawn weights", weights.status());
  for (const char* family : {"2.3", "2.0"}) {
    if (report.TimeIsUp(family)) continue;
    const absl::Status status = Decode(family, settings, **backend, *weights, report);
    if (!status.ok()) report.Fail(family, status);
  }
  if (!report.TimeIsUp("2.5, diffusion decoder")) {
    const absl::Status status = DecodeByDiffusion(settings, **backend, *weights, report);
    if (!status.ok()) report.Fail("2.5, diffusion decoder", status);
  }
  report.Note("untiled, bf16, drawn weights");
}

}  // namespace kinora
