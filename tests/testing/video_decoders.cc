#include "tests/testing/video_decoders.h"

#include <cstring>
#include <utility>

#include "engine/parallel/dry_run.h"
#include "engine/weights/checkpoint.h"
#include "tests/config/config_files.h"

namespace kinora {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

}  // namespace

VideoDecoderConfig ReleasedVideoDecoder(const std::string& version) {
  return OrDie(ParseConfig(ReadConfigFile("lightricks_" + version))).video_decoder;
}

VideoDecoderConfig ConfigOf(const Golden& golden) {
  return OrDie(ParseLightricksConfig(golden.metadata("config"), golden.metadata("model_version"))).video_decoder;
}

int64_t ArenaBytesOf(const VideoDecoder& decoder, DType dtype, const Shape& latent) {
  return DryRunArenaBytes(dtype, [&](Exec& exec) {
    decoder.Forward(exec, Tensor(DType::kF32, latent, nullptr),
                    Tensor(DType::kF32, decoder.OutputShape(latent), nullptr));
  });
}

LoadedVideoDecoder::LoadedVideoDecoder(const std::string& generation, DType dtype, const TestedBackend& on)
    : dtype_(dtype), golden_("video_decoder_" + generation), backend_(OrDie(on.open({.threads = 2}))) {
  ModelFiles files;
  files.paths = {golden_.WriteCheckpoint()};
  WeightLoader loader = OrDie(WeightLoader::Open(OrDie(Checkpoint::Open(files)), *mesh_, *backend_, dtype));
  decoder_ = std::make_unique<VideoDecoder>(OrDie(VideoDecoder::Load(loader.Under("vae"), ConfigOf(golden_))));
  const absl::Status finished = loader.Finish();
  KINORA_CHECK(finished.ok()) << finished.ToString();
}

Exec LoadedVideoDecoder::MakeExec(int64_t bytes, Taps* taps, Arena* host) {
  KINORA_CHECK(host != nullptr || backend_->traits().unified_memory);
  arena_.reset();
  Buffer memory = OrDie(backend_->Allocate(bytes, "activations of a test"));
  // 0xff is NaN in float32 and bfloat16. A device's fresh memory already holds NaN.
  if (backend_->traits().unified_memory) std::memset(memory.data(), 0xff, bytes);
  arena_ = std::make_unique<Arena>(std::move(memory));
  return {.backend = *backend_,
          .arena = *arena_,
          .host = host != nullptr ? *host : *arena_,
          .mesh = *mesh_,
          .dtype = dtype_,
          .taps = taps};
}

}  // namespace kinora
