// Part "encode": the video and audio encoders and the latent upsampler at the released shapes, with random weights.
#include "engine/base/status_macros.h"
#include "engine/model/audio_encoder.h"
#include "engine/model/latent_upsampler.h"
#include "engine/model/video_encoder.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/synthetic_model.h"
#include "tests/gpu_check/timed_module.h"

namespace kinora {
namespace {

struct Bench {
  const Settings& settings;
  Backend& backend;
  const SyntheticWeights& weights;
  Report& report;

  // Returns the module that `load` loads from a loader of the whole checkpoint.
  template <typename Load>
  auto Loaded(Load load) const -> decltype(load(std::declval<const WeightLoader&>())) {
    KINORA_ASSIGN_OR_RETURN(auto checkpoint,
                            weights.CheckpointFor([&](const WeightLoader& loader) { return load(loader).status(); }));
    const auto mesh = Mesh::Single();
    KINORA_ASSIGN_OR_RETURN(const WeightLoader loader,
                            WeightLoader::Open(std::move(checkpoint), *mesh, backend, DType::kBF16));
    auto module = load(loader);
    KINORA_RETURN_IF_ERROR(loader.Finish());
    return module;
  }
};

absl::Status EncodeVideo(const Bench& bench, const std::string& family, const ModelConfig& config) {
  KINORA_ASSIGN_OR_RETURN(const VideoEncoder encoder, bench.Loaded([&](const WeightLoader& loader) {
    return VideoEncoder::Load(loader.Under("vae"), config.video_encoder);
  }));
  const bool small = bench.settings.small;
  for (const Shape& pixels : {small ? Shape{1, 32, 32, 3} : Shape{1, 512, 768, 3},
                              small ? Shape{9, 32, 32, 3} : Shape{73, 512, 768, 3}}) {  // a picture; the largest tile
    KINORA_RETURN_IF_ERROR(
        TimeModule({.table = "video encoder",
                    .name = family,
                    .shown = "frames",
                    .in = pixels,
                    .out = encoder.OutputShape(pixels),
                    .shape = pixels,
                    .forward = [&](Exec& exec, const Tensor& in, Tensor out) { encoder.Forward(exec, in, out); }},
                   bench.settings, bench.backend, bench.report));
  }
  return absl::OkStatus();
}

absl::Status EncodeAudio(const Bench& bench, const std::string& family, const ModelConfig& config) {
  KINORA_ASSIGN_OR_RETURN(const AudioEncoder encoder, bench.Loaded([&](const WeightLoader& loader) {
    return AudioEncoder::Load(loader.Under("audio_vae"), config.audio_encoder);
  }));
  const AudioEncoderConfig& audio = config.audio_encoder;
  const Shape mel = {audio.in_channels, bench.settings.small ? 9 : 501, audio.vae.mel_bins};  // five seconds
  return TimeModule({.table = "audio encoder",
                     .name = family,
                     .shown = "rows",
                     .in = mel,
                     .out = {encoder.LatentRows(mel[1]), audio.vae.packed_width()},
                     .shape = mel,
                     .forward = [&](Exec& exec, const Tensor& in, Tensor out) { encoder.Forward(exec, in, out); }},
                    bench.settings, bench.backend, bench.report);
}

absl::Status Upsample(const Bench& bench, const std::string& name, UpsamplerConfig config) {
  if (bench.settings.small) config.mid_channels = 32, config.blocks = 1;
  KINORA_ASSIGN_OR_RETURN(const LatentUpsampler upsampler, bench.Loaded([&](const WeightLoader& loader) {
    return LatentUpsampler::Load(loader.Under("spatial_upsampler"), loader.Under("vae"), config);
  }));
  KINORA_ASSIGN_OR_RETURN(const Shape latent,
                          config.InputShape(bench.settings.small ? Shape{3, 6, 6, config.latent_channels}
                                                                 : Shape{17, 18, 24, config.latent_channels}));
  return TimeModule({.table = "upsampler",
                     .name = name,
                     .shown = "latent",
                     .in = latent,
                     .out = config.OutputShape(latent),
                     .shape = config.OutputShape(latent),
                     .forward = [&](Exec& exec, const Tensor& in, Tensor out) { upsampler.Forward(exec, in, out); }},
                    bench.settings, bench.backend, bench.report);
}

absl::Status Encoders(const Bench& bench, const std::string& family) {
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, SyntheticConfig(bench.settings, family));
  KINORA_RETURN_IF_ERROR(EncodeVideo(bench, family, config));
  return family == "2.3" ? EncodeAudio(bench, family, config) : absl::OkStatus();  // identical in both families
}

}  // namespace

void CheckEncode(const Settings& settings, Report& report) {
  const auto backend = OpenBackend("cuda", {.threads = settings.threads});
  if (!backend.ok()) return report.NotAvailable(std::string(backend.status().message()));
  const auto weights = SyntheticWeights::Make(settings);
  if (!weights.ok()) return report.Fail("drawn weights", weights.status());
  const Bench bench{settings, **backend, *weights, report};
  for (const char* family : {"2.3", "2.0"}) {
    if (report.TimeIsUp(family)) continue;
    const absl::Status status = Encoders(bench, family);
    if (!status.ok()) report.Fail(family, status);
  }
  constexpr int64_t kMid = 1024;
  for (const auto& [name, config] : {std::pair("x2", UpsamplerConfig{.mid_channels = kMid}),
                                     {"x1.5", {.mid_channels = kMid, .rational = true, .space_up = 3, .space_down = 2}},
                                     {"temporal_x2", {.mid_channels = kMid, .space_up = 1, .time_up = 2}}}) {
    if (report.TimeIsUp(name)) continue;
    const absl::Status status = Upsample(bench, name, config);
    if (!status.ok()) report.Fail(name, status);
  }
  report.Note("untiled, bf16, drawn weights");
}

}  // namespace kinora
