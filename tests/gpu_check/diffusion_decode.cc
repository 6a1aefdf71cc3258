#include "tests/gpu_check/diffusion_decode.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/config/released_models.h"
#include "engine/diffusion/noise.h"
#include "engine/model/diffusion_video_decoder.h"
#include "engine/ops/dry_backend.h"
#include "tests/gpu_check/op_cases.h"
#include "tests/gpu_check/workbench.h"

namespace kinora {
namespace {

// The released decoder, or a narrow one with small windows.
absl::StatusOr<VideoDecoderConfig> ConfigFor(const Settings& settings) {
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReleasedModelConfig("ltx-2.5-22b-diffusion-decoder"));
  VideoDecoderConfig decoder = config.video_decoder;
  if (!settings.small) return decoder;
  DiffusionDecoderConfig& d = *decoder.diffusion;
  const auto shrink = [&](DiffusionDecoderConfig::Stage& stage) {
    stage.width = d.head_width;
    stage.blocks = 1;
    stage.window = {3, 3, 3};
  };
  for (DiffusionDecoderConfig::Stage& stage : d.stages) shrink(stage);
  shrink(d.denoiser);
  d.context_width = d.head_width;
  return decoder;
}

struct Timed {
  const char* part;
  Shape out;
  double flops, seconds;
  double predicted_ms;  // for an H100 (docs/performance.md)
};

void AddRow(const Timed& timed, const Settings& settings, Report& report) {
  report.Add("diffusion decoder", {{"part", timed.part},
                                   {"out", timed.out.ToString()},
                                   {"ms", timed.seconds * 1e3},
                                   {"TFLOP", timed.flops / 1e12},
                                   {"TFLOP/s", timed.flops / timed.seconds / 1e12},
                                   {"predicted ms", settings.small ? Json() : Json(timed.predicted_ms)}});
}

absl::Status TimeAttention(const Settings& settings, Backend& backend, Report& report) {
  const OpCase c = settings.small ? NeighbourhoodCase({3, 5, 9}, {3, 3, 3}, 1, 64, DType::kBF16)
                                  : NeighbourhoodCase({121, 128, 192}, {11, 11, 11}, 4, 64, DType::kBF16);
  DryBackend dry(backend.traits());
  Workbench counted(dry), bench(backend);
  c.prepare(counted).run();
  const PreparedOp prepared = c.prepare(bench);
  KINORA_RETURN_IF_ERROR(bench.status());
  KINORA_ASSIGN_OR_RETURN(const double seconds, Stopwatch(backend.ops()).MedianOfGraph(settings.runs, 1, prepared.run));
  AddRow({"attention of one block of the denoiser", prepared.out.shape(), dry.ops().cost().flops(), seconds, 26},
         settings, report);
  return absl::OkStatus();
}

// Both parts of the decoder's work, what they cost, and the device memory that they need.
struct Work {
  std::function<void(Exec&exec)> features, tile;
  double flops_of_features = 0, flops_of_tile = 0;
  int64_t arena_bytes = 0;

  void Count(const BackendTraits& traits, const Mesh& mesh) {
    DryBackend dry(traits);
    Arena arena = Arena::Dry();
    Exec exec{.backend = dry, .arena = arena, .host = arena, .mesh = mesh, .dtype = DType::kBF16};
    features(exec);
    flops_of_features = dry.ops().cost().flops();
    tile(exec);
    flops_of_tile = dry.ops().cost().flops() - flops_of_features;
    arena_bytes = arena.peak();
  }
};

// Returns the medians of the seconds of both parts. Without graphs, since the second reads host memory, and since the
// host waits for each slab, as in a run.
absl::StatusOr<std::pair<double, double>> Times(const Work& work, const Mesh& mesh, int runs, Backend& backend) {
  KINORA_ASSIGN_OR_RETURN(Buffer memory, backend.Allocate(work.arena_bytes, "the decoder's activations"));
  Arena arena(std::move(memory)), host = Arena::Dry();
  Exec exec{.backend = backend, .arena = arena, .host = host, .mesh = mesh, .dtype = DType::kBF16};
  Stopwatch watch(backend.ops());
  KINORA_ASSIGN_OR_RETURN(const double of_features, watch.Median(runs, [&] {
    ArenaScope scope(arena);
    work.features(exec);
  }));
  work.features(exec);
  KINORA_ASSIGN_OR_RETURN(const double of_tile, watch.Median(runs, [&] { work.tile(exec); }));
  return std::pair(of_features, of_tile);
}

absl::Status TimeDecoder(const DiffusionVideoDecoder& decoder, const Settings& settings, Backend& backend,
                         Report& report) {
  const int64_t channels = decoder.config().latent_channels;
  const Shape latent = settings.small ? Shape{2, 3, 3, channels} : Shape{16, 16, 24, channels};
  const DiffusionVideoDecoder::Tile whole{.end = decoder.CellsOf(latent), .last = true};
  const Shape frames = decoder.OutputShape(whole), canvas = decoder.CanvasOf(whole);
  KINORA_ASSIGN_OR_RETURN(const Buffer noise, backend.AllocateHost(4 * canvas.elements(), "noise"));
  const absl::Span<float> values(static_cast<float*>(noise.data()), canvas.elements());
  NoiseSource(7).Fill(values);

  Workbench bench(backend);
  const Tensor z = bench.Random(DType::kF32, latent), out = bench.Output(DType::kF32, frames);
  KINORA_RETURN_IF_ERROR(bench.status());
  Tensor features;
  Work work;
  work.features = [&](Exec& exec) {
    features = decoder.Features(exec, z, [&] { return exec.ops.stream().Synchronize(); }).value();
  };
  work.tile = [&](Exec& exec) {
    const HostNoise given{.values = values, .pinned = true};
    const auto wait = [&] { return exec.ops.stream().Synchronize(); };
    KINORA_CHECK(decoder.Decode(exec, features, whole, given, wait, out).ok());
  };
  const auto mesh = Mesh::Single();
  work.Count(backend.traits(), *mesh);
  KINORA_ASSIGN_OR_RETURN(const auto seconds, Times(work, *mesh, std::min(settings.runs, 3), backend));
  AddRow({"stages 1 to 3, of the clip", features.shape(), work.flops_of_features, seconds.first, 20}, settings, report);
  AddRow({"stage 4 and the denoiser, of a tile", frames, work.flops_of_tile, seconds.second, 400}, settings, report);
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeByDiffusion(const Settings& settings, Backend& backend, const SyntheticWeights& weights,
                               Report& report) {
  KINORA_ASSIGN_OR_RETURN(const VideoDecoderConfig config, ConfigFor(settings));
  const auto load = [&](const WeightLoader& loader) {
    return DiffusionVideoDecoder::Load(loader.Under("vae"), config, {});
  };
  KINORA_ASSIGN_OR_RETURN(auto checkpoint,
                          weights.CheckpointFor([&](const WeightLoader& loader) { return load(loader).status(); }));
  const auto mesh = Mesh::Single();
  KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(std::move(checkpoint), *mesh, backend, DType::kBF16));
  KINORA_ASSIGN_OR_RETURN(const DiffusionVideoDecoder decoder, load(loader));
  KINORA_RETURN_IF_ERROR(loader.Finish());
  KINORA_RETURN_IF_ERROR(TimeDecoder(decoder, settings, backend, report));
  return TimeAttention(settings, backend, report);
}

}  // namespace kinora
