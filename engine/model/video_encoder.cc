#include "engine/model/video_encoder.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

using Kind = VideoEncoderBlock::Kind;

SpaceTime Factor(const VideoEncoderBlock& block) {
  return {static_cast<int>(block.stride[0]), static_cast<int>(block.stride[1]), static_cast<int>(block.stride[2])};
}

// Halving the time gives (f + 1) / 2 frames, because the first one is repeated.
bool RepeatsFirst(const VideoEncoderBlock& block) { return block.stride[0] == 2; }

Shape Downsampled(const Shape& x, const VideoEncoderBlock& block) {
  return {(x[0] + (RepeatsFirst(block) ? 1 : 0)) / block.stride[0], x[1] / block.stride[1], x[2] / block.stride[2],
          block.out_channels};
}

// Shape of the result of a downsampling block's convolution.
Shape Convolved(const Shape& x, const VideoEncoderBlock& block) {
  return {x[0] + (RepeatsFirst(block) ? 1 : 0), x[1], x[2], block.conv_channels()};
}

}  // namespace

absl::StatusOr<VideoEncoder::Block> VideoEncoder::LoadBlock(WeightLoader& weights, int64_t index) const {
  const VideoEncoderBlock& config = config_.blocks[index];
  CausalConv::Options options{
      .in = config.in_channels, .out = config.out_channels, .causal = true, .padding = config_.padding};
  const std::string name = Cat("down_blocks.", index);
  Block block;
  if (config.kind == Kind::kDownsample) {
    options.out = config.conv_channels();
    options.repeat_first = RepeatsFirst(config);
    KINORA_ASSIGN_OR_RETURN(block.conv, CausalConv::Load(weights, Cat(name, ".conv"), options));
    return block;
  }
  for (int64_t j = 0; j < config.layers; ++j) {
    KINORA_ASSIGN_OR_RETURN(VideoResNet resnet, VideoResNet::Load(weights, Cat(name, ".res_blocks.", j), options));
    block.resnets.push_back(std::move(resnet));
  }
  return block;
}

absl::StatusOr<VideoEncoder> VideoEncoder::Load(const WeightLoader& weights, const VideoEncoderConfig& config) {
  if (!config.unavailable.empty()) {
    return absl::UnimplementedError(Cat("this model's video encoder is not available: ", config.unavailable));
  }
  VideoEncoder encoder;
  encoder.config_ = config;
  WeightLoader statistics = weights.Under("per_channel_statistics"), layers = weights.Under("encoder");
  KINORA_ASSIGN_OR_RETURN(encoder.normalizer_, LatentNormalizer::Load(statistics, config.latent_channels));
  CausalConv::Options options{
      .in = config.patch_channels(), .out = config.base_channels, .causal = true, .padding = config.padding};
  KINORA_ASSIGN_OR_RETURN(encoder.conv_in_, CausalConv::Load(layers, "conv_in", options));
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    KINORA_ASSIGN_OR_RETURN(Block block, encoder.LoadBlock(layers, static_cast<int64_t>(i)));
    encoder.blocks_.push_back(std::move(block));
  }
  options.in = config.last_width();
  options.out = config.latent_channels + config.variance_channels;
  options.kept = config.latent_channels;
  KINORA_ASSIGN_OR_RETURN(encoder.conv_out_, CausalConv::Load(layers, "conv_out", options));
  return encoder;
}

absl::Status VideoEncoder::CheckPixels(const Shape& pixels) const {
  KINORA_CHECK(pixels.rank() == 4 && pixels[3] == config_.in_channels) << pixels.ToString();
  const int64_t time = config_.time_factor(), space = config_.space_factor();
  if (pixels[0] < 1 || (pixels[0] - 1) % time != 0) {
    return absl::InvalidArgumentError(
        Cat("num_frames: ", pixels[0], " is not a multiple of ", time, ", plus 1, as this model's encoder needs"));
  }
  const int64_t smallest = config_.padding == SpatialPadding::kReflect ? 2 * space : space;
  for (int axis : {1, 2}) {
    const std::string_view name = axis == 1 ? "height" : "width";
    if (pixels[axis] % space != 0 || pixels[axis] < smallest) {
      return absl::InvalidArgumentError(Cat(name, ": ", pixels[axis], " is not a multiple of ", space, ", at least ",
                                            smallest, ", as this model's encoder needs"));
    }
  }
  return absl::OkStatus();
}

Shape VideoEncoder::OutputShape(const Shape& pixels) const {
  const int64_t space = config_.space_factor();
  return {(pixels[0] - 1) / config_.time_factor() + 1, pixels[1] / space, pixels[2] / space, config_.latent_channels};
}

int64_t VideoEncoder::LargestActivation(const Shape& pixels) const {
  const int64_t patch = config_.patch_size;
  Shape x = {pixels[0], pixels[1] / patch, pixels[2] / patch, config_.base_channels};
  int64_t largest = std::max(x.elements(), WithChannels(x, config_.patch_channels()).elements());
  for (const VideoEncoderBlock& block : config_.blocks) {
    if (block.kind == Kind::kResidual) continue;
    largest = std::max(largest, Convolved(x, block).elements());
    x = Downsampled(x, block);
    largest = std::max(largest, x.elements());
  }
  return largest;
}

void VideoEncoder::RunDownsample(Exec& exec, const VideoEncoderBlock& config, const Block& block,
                                 VideoScratch& scratch) const {
  const Shape downsampled = Downsampled(scratch.shape(), config);
  const Tensor conv = scratch.View(1, Convolved(scratch.shape(), config)), out = scratch.View(2, downsampled);
  block.conv.Forward(exec, scratch.x(), Accumulate::kNo, conv);
  exec.ops.SpaceToDepth(conv, {.factor = Factor(config)}, out);
  exec.ops.SpaceToDepth(scratch.x(),
                        {.factor = Factor(config),
                         .repeat_first = RepeatsFirst(config),
                         .mean_of = config.mean_of(),
                         .accumulate = Accumulate::kAdd},
                        out);
  scratch.MoveTo(2, downsampled);
}

void VideoEncoder::Forward(Exec& exec, const Tensor& pixels, Tensor latent) const {
  KINORA_CHECK(latent.shape() == OutputShape(pixels.shape())) << latent.shape().ToString();
  ArenaScope temp(exec.arena);
  const int patch = static_cast<int>(config_.patch_size);
  const Shape patched = {pixels.dim(0), pixels.dim(1) / patch, pixels.dim(2) / patch, config_.patch_channels()};
  VideoScratch scratch(temp, exec.dtype, LargestActivation(pixels.shape()),
                       WithChannels(patched, config_.base_channels));
  const Tensor patches = scratch.View(1, patched);
  exec.ops.SpaceToDepth(pixels, {.factor = {.height = patch, .width = patch}, .width_before_height = true}, patches);
  conv_in_.Forward(exec, patches, Accumulate::kNo, scratch.x());
  Tap(exec, "conv_in", scratch.x());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (config_.blocks[i].kind == Kind::kDownsample) RunDownsample(exec, config_.blocks[i], blocks_[i], scratch);
    for (const VideoResNet& resnet : blocks_[i].resnets) resnet.Forward(exec, scratch);
    if (exec.taps != nullptr) Tap(exec, Cat("down_blocks.", i), scratch.x());
  }
  exec.ops.RmsNorm(scratch.x(), /*weight=*/nullptr, kPixelNormEps, Activation::kSilu, scratch.x());
  conv_out_.Forward(exec, scratch.x(), Accumulate::kNo, latent);
  normalizer_.Forward(exec, latent, latent);
}

}  // namespace kinora
