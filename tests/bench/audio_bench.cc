// Measures audio decoding at the released sizes, float32, with random weights.
//   audio_bench [SECONDS = 5] [THREADS = 2] [REPEATS = 3]
// Prints one line per stage: wall and processor seconds (medians), GFLOP, GFLOP per processor second, arena MiB.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "engine/ops/dry_backend.h"
#include "tests/bench/measure.h"
#include "tests/bench/random_checkpoint.h"
#include "tests/model/audio_models.h"

namespace kinora {
namespace {

// Both models, on the given ops.
struct Sound {
  AudioDecoder decoder;
  Vocoder vocoder;

  Sound(const WeightLoader& loader, const VocoderConfig& config)
      : decoder(OrDie(AudioDecoder::Load(loader.Under("audio_vae"), {}))),
        vocoder(OrDie(Vocoder::Load(loader.Under("vocoder"), config, {}))) {}
};

void Report(const char* name, int repeats, double gflop, int64_t arena_bytes, const std::function<void()>& run) {
  std::vector<Times> times;
  times.reserve(repeats);
  run();  // first run, touches the memory
  for (int i = 0; i < repeats; ++i) times.push_back(Measure(run));
  const Times median = Medians(times);
  std::printf("%-14s %8.2f %8.2f %9.1f %9.1f %8.1f\n", name, median.wall, median.processor, gflop,
              gflop / median.processor, static_cast<double>(arena_bytes) / (1 << 20));
  std::fflush(stdout);
}

void Run(const std::string& generation, double seconds, int threads, int repeats) {
  const VocoderConfig config = ReleasedVocoder(generation);
  const auto mesh = Mesh::Single();
  DryBackend dry_backend;
  DryOps& dry_ops = dry_backend.ops();
  WeightLoader dry_loader = WeightLoader::Dry(*mesh, dry_backend, DType::kF32);
  const Sound dry(dry_loader, config);
  const std::string path =
      std::filesystem::temp_directory_path() / ("audio_bench." + std::to_string(getpid()) + ".safetensors");
  KINORA_CHECK(WriteRandomCheckpoint(path, dry_loader.recorded()).ok()) << path;
  ModelFiles files;
  files.paths = {path};
  const auto backend = OrDie(OpenBackend("cpu", {.threads = threads}));
  WeightLoader loader = OrDie(WeightLoader::Open(OrDie(Checkpoint::Open(files)), *mesh, *backend, DType::kF32));
  const Sound sound(loader, config);
  std::filesystem::remove(path);
  const absl::Status finished = loader.Finish();
  KINORA_CHECK(finished.ok()) << finished.ToString();

  const int64_t rows = std::max<int64_t>(1, std::llround(seconds * 25));  // latent rows per second: 16000 / 160 / 4
  HostTensor latent(DType::kF32, {rows, 128}), mel(DType::kF32, sound.decoder.OutputShape(rows));
  HostTensor waveform(DType::kF32, {2, sound.vocoder.Samples(mel.tensor().dim(1))});
  for (int64_t i = 0; i < rows * 128; ++i) latent.f32()[i] = static_cast<float>(i % 17) / 8 - 1;

  const auto on = [&](Backend& b, Arena& arena) {
    return Exec{.backend = b, .arena = arena, .host = arena, .mesh = *mesh};
  };
  const auto measure = [&](const char* name, auto body) {
    Arena dry_arena = Arena::Dry();
    Exec dry_exec = on(dry_backend, dry_arena);
    dry_ops.ResetCost();
    body(dry_exec, dry);
    Arena arena(OrDie(Buffer::Allocate(dry_arena.peak())));
    Exec exec = on(*backend, arena);
    Report(name, repeats, static_cast<double>(dry_ops.cost().flops()) / 1e9, dry_arena.peak(),
           [&] { body(exec, sound); });
  };
  measure("audio_decoder", [&](Exec& exec, const Sound& s) { s.decoder.Forward(exec, latent.tensor(), mel.tensor()); });
  measure(("vocoder_" + generation).c_str(),
          [&](Exec& exec, const Sound& s) { s.vocoder.Forward(exec, mel.tensor(), waveform.tensor()); });
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2, repeats = argc > 3 ? std::atoi(argv[3]) : 3;
  std::printf("%-14s %8s %8s %9s %9s %8s\n", "stage", "wall s", "cpu s", "GFLOP", "GFLOP/s", "MiB");
  for (const char* generation : {"2_0", "2_3"}) kinora::Run(generation, seconds, threads, repeats);
  return 0;
}
