#include "tests/testing/video_decoders.h"

#include <cstring>
#include <utility>

#include "engine/weights/checkpoint.h"

namespace kinora {
namespace {

using Kind = VideoDecoderBlock::Kind;

// Builds a block list from the latent end on.
class Blocks {
 public:
  explicit Blocks(int64_t width) : width_(width) {}
  Blocks& Res(int64_t layers) {
    blocks_.push_back({.kind = Kind::kResidual, .in_channels = width_, .out_channels = width_, .layers = layers});
    return *this;
  }
  Blocks& Up(std::array<int64_t, 3> stride, int64_t reduction, bool residual = false) {
    blocks_.push_back({.kind = Kind::kUpsample,
                       .in_channels = width_,
                       .out_channels = width_ / reduction,
                       .stride = stride,
                       .residual = residual});
    width_ /= reduction;
    return *this;
  }
  operator std::vector<VideoDecoderBlock>() const { return blocks_; }  // NOLINT

 private:
  int64_t width_;
  std::vector<VideoDecoderBlock> blocks_;
};

constexpr std::array<int64_t, 3> kAll = {2, 2, 2}, kTime = {2, 1, 1}, kSpace = {1, 2, 2};

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

}  // namespace

VideoDecoderConfig Released20VideoDecoder() {
  return {.padding = SpatialPadding::kReflect,
          .blocks = Blocks(1024).Res(5).Up(kAll, 2, true).Res(5).Up(kAll, 2, true).Res(5).Up(kAll, 2, true).Res(5)};
}

VideoDecoderConfig Released23VideoDecoder() {
  return {.padding = SpatialPadding::kZeros,
          .blocks = Blocks(1024).Res(2).Up(kAll, 2).Res(2).Up(kAll, 1).Res(4).Up(kTime, 2).Res(6).Up(kSpace, 2).Res(4)};
}

VideoDecoderConfig GoldenVideoDecoder(const std::string& generation) {
  if (generation == "2_0") {
    return {.latent_channels = 16,
            .padding = SpatialPadding::kReflect,
            .blocks = Blocks(32).Res(1).Up(kAll, 2, true).Res(2).Up(kAll, 2, true).Res(1).Up(kAll, 2, true).Res(2)};
  }
  return {.latent_channels = 16,
          .padding = SpatialPadding::kZeros,
          .blocks = Blocks(16).Res(1).Up(kAll, 2).Res(2).Up(kAll, 1).Res(1).Up(kTime, 2).Res(3).Up(kSpace, 1).Res(2)};
}

LoadedVideoDecoder::LoadedVideoDecoder(const std::string& generation, DType dtype, int threads)
    : dtype_(dtype), golden_("video_decoder_" + generation), ops_(OrDie(CpuOps::Create(threads))) {
  ModelFiles files;
  files.paths = {golden_.WriteCheckpoint()};
  WeightLoader loader = OrDie(WeightLoader::Open(OrDie(Checkpoint::Open(files)), *mesh_, *ops_, dtype));
  decoder_ =
      std::make_unique<VideoDecoder>(OrDie(VideoDecoder::Load(loader.Under("vae"), GoldenVideoDecoder(generation))));
  const absl::Status finished = loader.Finish();
  KINORA_CHECK(finished.ok()) << finished.ToString();
}

Exec LoadedVideoDecoder::MakeExec(int64_t bytes, Taps* taps) {
  Buffer memory = OrDie(Buffer::Allocate(bytes));
  std::memset(memory.data(), 0xff, bytes);  // NaN in float32 and in bfloat16
  arena_ = std::make_unique<Arena>(std::move(memory));
  return {.ops = *ops_, .arena = *arena_, .mesh = *mesh_, .dtype = dtype_, .taps = taps};
}

}  // namespace kinora
