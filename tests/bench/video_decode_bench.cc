// Time of the video VAE's decoder, random weights. video_decode_compare.py runs it beside diffusers.
//   video_decode_bench write VERSION WIDTH FRAMES HEIGHT WIDTH_CELLS FOLDER
//       VERSION 2.0 or 2.3; WIDTH: channels of the last level, 128 in the released models; the latent's extents in
//       cells. Writes FOLDER/video.safetensors (weights) and FOLDER/latent.safetensors.
//   video_decode_bench run VERSION WIDTH PRECISION THREADS REPEATS FOLDER
//       PRECISION f32 or bf16. Prints a line a run: wall seconds, processor seconds, GFLOP, arena bytes, peak RSS
//       bytes. Writes FOLDER/frames.safetensors.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "engine/ops/dry_ops.h"
#include "engine/weights/checkpoint.h"
#include "tests/bench/random_checkpoint.h"
#include "tests/testing/video_decoders.h"

namespace kinora {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}
void OrDie(const absl::Status& status) { KINORA_CHECK(status.ok()) << status.ToString(); }

VideoDecoderConfig Config(const std::string& version, int64_t width) {
  VideoDecoderConfig config = ReleasedVideoDecoder(version);
  for (VideoDecoderBlock& block : config.blocks) {
    block.in_channels = block.in_channels * width / 128;
    block.out_channels = block.out_channels * width / 128;
  }
  return config;
}

struct Dry {
  explicit Dry(const VideoDecoderConfig& config)
      : loader(WeightLoader::Dry(*mesh, ops, DType::kBF16)),
        decoder(OrDie(VideoDecoder::Load(loader.Under("vae"), config))) {}
  std::unique_ptr<Mesh> mesh = Mesh::Single();
  DryOps ops;
  WeightLoader loader;
  VideoDecoder decoder;
};

void Write(const VideoDecoderConfig& config, const Shape& latent_shape, const std::string& folder) {
  const Dry dry(config);
  OrDie(WriteRandomCheckpoint(folder + "/video.safetensors", dry.loader.recorded()));
  HostTensor latent(DType::kF32, latent_shape);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < latent_shape.elements(); ++i) latent.f32()[i] = normal(random);
  OrDie(WriteSafetensors(folder + "/latent.safetensors", {{"latent", latent.tensor()}}));
}

double ProcessorSeconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void Run(const VideoDecoderConfig& config, DType precision, int threads, int repeats, const std::string& folder) {
  const auto mesh = Mesh::Single();
  const auto ops = OrDie(CpuOps::Create(threads));
  ModelFiles files;
  files.paths = {folder + "/video.safetensors"};
  WeightLoader loader = OrDie(WeightLoader::Open(OrDie(Checkpoint::Open(files)), *mesh, *ops, precision));
  const VideoDecoder decoder = OrDie(VideoDecoder::Load(loader.Under("vae"), config));
  OrDie(loader.Finish());
  const auto file = OrDie(SafetensorsFile::Open(folder + "/latent.safetensors"));
  const TensorInfo& info = *file->Find("latent");
  HostTensor latent(DType::kF32, info.shape);
  OrDie(file->Read(info, 0, info.bytes, latent.f32()));

  HostTensor frames(DType::kF32, decoder.OutputShape(info.shape));
  Dry dry(config);
  Arena dry_arena = Arena::Dry();
  Exec dry_exec{.ops = dry.ops, .arena = dry_arena, .mesh = *mesh, .dtype = precision};
  dry.decoder.Forward(dry_exec, latent.tensor(), frames.tensor());
  Arena arena(OrDie(Buffer::Allocate(dry_arena.peak())));
  Exec exec{.ops = *ops, .arena = arena, .mesh = *mesh, .dtype = precision};
  for (int i = 0; i < repeats; ++i) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const auto start = std::chrono::steady_clock::now();
    decoder.Forward(exec, latent.tensor(), frames.tensor());
    OrDie(ops->stream().Synchronize());
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    getrusage(RUSAGE_SELF, &after);
    std::printf("%.4f %.4f %.2f %lld %lld\n", wall, ProcessorSeconds(after) - ProcessorSeconds(before),
                static_cast<double>(dry.ops.cost().flops()) * 1e-9, static_cast<long long>(arena.peak()),
                static_cast<long long>(after.ru_maxrss) << 10);
    std::fflush(stdout);
  }
  OrDie(WriteSafetensors(folder + "/frames.safetensors", {{"frames", frames.tensor()}}));
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  using namespace kinora;
  if (argc != 8 || (std::strcmp(argv[1], "write") != 0 && std::strcmp(argv[1], "run") != 0)) {
    std::fprintf(stderr, "usage: see the top of video_decode_bench.cc\n");
    return 2;
  }
  const VideoDecoderConfig config = Config(argv[2], std::atoll(argv[3]));
  if (std::strcmp(argv[1], "write") == 0) {
    Write(config, {std::atoll(argv[4]), std::atoll(argv[5]), std::atoll(argv[6]), config.latent_channels}, argv[7]);
  } else {
    Run(config, std::strcmp(argv[4], "bf16") == 0 ? DType::kBF16 : DType::kF32, std::atoi(argv[5]), std::atoi(argv[6]),
        argv[7]);
  }
  return 0;
}
