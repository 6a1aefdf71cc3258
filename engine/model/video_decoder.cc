#include "engine/model/video_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

using Kind = VideoDecoderBlock::Kind;

SpaceTime Factor(const VideoDecoderBlock& block) {
  return {static_cast<int>(block.stride[0]), static_cast<int>(block.stride[1]), static_cast<int>(block.stride[2])};
}

// Shape of an upsampling block's result. Doubling the time gives 2f − 1 frames, because the first one is dropped.
Shape Upsampled(const Shape& x, const VideoDecoderBlock& block) {
  const int64_t frames = block.stride[0] == 2 ? 2 * x[0] - 1 : x[0];
  return {frames, x[1] * block.stride[1], x[2] * block.stride[2], block.out_channels};
}

}  // namespace

absl::Status VideoDecoder::CheckConfig(const VideoDecoderConfig& config) {
  if (config.blocks.empty()) return absl::InvalidArgumentError("vae.decoder_blocks is empty");
  int64_t width = config.first_width();
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    const VideoDecoderBlock& block = config.blocks[i];
    const auto wrong = [&](std::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("vae.decoder_blocks, number ", i, " in the order of execution: ", std::string(what)));
    };
    if (block.in_channels != width) {
      return wrong(absl::StrCat("takes ", block.in_channels, " channels, but gets ", width));
    }
    width = block.out_channels;
    if (block.kind == Kind::kResidual) {
      if (block.out_channels != block.in_channels) return wrong("a residual block that changes the width");
      continue;
    }
    const int64_t product = block.stride[0] * block.stride[1] * block.stride[2];
    const auto stride_ok = [](int64_t s) { return s == 1 || s == 2; };
    if (!std::all_of(block.stride.begin(), block.stride.end(), stride_ok) || product == 1) {
      return wrong("a stride other than 1 or 2, or none at all");
    }
    if (block.residual &&
        (block.in_channels % product != 0 || block.out_channels % (block.in_channels / product) != 0)) {
      return wrong(absl::StrCat("residual of ", block.in_channels, " channels does not fit ", block.out_channels));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<VideoDecoder::Block> VideoDecoder::LoadBlock(WeightLoader& weights, int64_t index) const {
  const VideoDecoderBlock& config = config_.blocks[index];
  CausalConv::Options options{
      .in = config.in_channels, .out = config.out_channels, .causal = config_.causal, .padding = config_.padding};
  Block block;
  if (config.kind == Kind::kUpsample) {
    options.out = config.conv_channels();
    options.order = {.factor = Factor(config)};
    KINORA_ASSIGN_OR_RETURN(block.conv, CausalConv::Load(weights, absl::StrCat("up_blocks.", index, ".conv"), options));
    return block;
  }
  for (int64_t j = 0; j < config.layers; ++j) {
    const std::string name = absl::StrCat("up_blocks.", index, ".res_blocks.", j);
    if (weights.Has(name + ".per_channel_scale1")) {
      return absl::UnimplementedError("vae.decoder_blocks: inject_noise is not available");
    }
    KINORA_ASSIGN_OR_RETURN(VideoResNet resnet, VideoResNet::Load(weights, name, options));
    block.resnets.push_back(std::move(resnet));
  }
  return block;
}

absl::StatusOr<VideoDecoder> VideoDecoder::Load(WeightLoader weights, const VideoDecoderConfig& config) {
  KINORA_RETURN_IF_ERROR(CheckConfig(config));
  WeightLoader decoder_weights = weights.Under("decoder");
  if (decoder_weights.Has("last_scale_shift_table") || decoder_weights.Has("timestep_scale_multiplier")) {
    return absl::UnimplementedError("vae.timestep_conditioning is not available: the decoder would need a noise level");
  }
  VideoDecoder decoder;
  decoder.config_ = config;
  const Shape channels = {config.latent_channels};
  KINORA_ASSIGN_OR_RETURN(decoder.mean_, weights.LoadTensor("per_channel_statistics.mean-of-means", channels));
  KINORA_ASSIGN_OR_RETURN(decoder.std_, weights.LoadTensor("per_channel_statistics.std-of-means", channels));
  CausalConv::Options options{
      .in = config.latent_channels, .out = config.first_width(), .causal = config.causal, .padding = config.padding};
  KINORA_ASSIGN_OR_RETURN(decoder.conv_in_, CausalConv::Load(decoder_weights, "conv_in", options));
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    KINORA_ASSIGN_OR_RETURN(Block block, decoder.LoadBlock(decoder_weights, static_cast<int64_t>(i)));
    decoder.blocks_.push_back(std::move(block));
  }
  options.in = config.last_width();
  options.out = config.conv_out_channels();
  const int patch = static_cast<int>(config.patch_size);
  options.order = {.factor = {.height = patch, .width = patch}, .width_before_height = true};
  KINORA_ASSIGN_OR_RETURN(decoder.conv_out_, CausalConv::Load(decoder_weights, "conv_out", options));
  return decoder;
}

absl::Status VideoDecoder::CheckLatent(const Shape& latent) const {
  KINORA_CHECK(latent.rank() == 4 && latent[3] == config_.latent_channels) << latent.ToString();
  const int64_t smallest = config_.smallest_latent_side();
  for (int axis : {1, 2}) {
    if (latent[axis] < smallest) {
      return absl::InvalidArgumentError(absl::StrCat(axis == 1 ? "height" : "width", " must be at least ",
                                                     smallest * config_.space_factor(),
                                                     ": this model's decoder pads by reflection"));
    }
  }
  return absl::OkStatus();
}

Shape VideoDecoder::OutputShape(const Shape& latent) const {
  const int64_t space = config_.space_factor();
  return {config_.time_factor() * (latent[0] - 1) + 1, space * latent[1], space * latent[2], config_.out_channels};
}

int64_t VideoDecoder::LargestActivation(const Shape& latent) const {
  Shape x = WithChannels(latent, config_.first_width());
  int64_t largest = std::max(latent.elements(), x.elements());
  for (const VideoDecoderBlock& block : config_.blocks) {
    if (block.kind == Kind::kUpsample) {
      largest = std::max(largest, WithChannels(x, block.conv_channels()).elements());
      x = Upsampled(x, block);
    }
    largest = std::max(largest, x.elements());
  }
  return largest;
}

void VideoDecoder::RunUpsample(Exec& exec, const VideoDecoderBlock& config, const Block& block,
                               VideoScratch& scratch) const {
  const Shape upsampled = Upsampled(scratch.shape(), config);
  const Tensor conv = scratch.View(1, WithChannels(scratch.shape(), config.conv_channels()));
  const Tensor out = scratch.View(2, upsampled);
  DepthToSpaceOptions move{.factor = Factor(config), .drop_first = config.stride[0] == 2};
  block.conv.Forward(exec, scratch.x(), Accumulate::kNo, conv);
  exec.ops.DepthToSpace(conv, move, out);
  if (config.residual) {
    move.channels_outer = true;  // the input's channels have the file's order (c, t, h, w)
    move.accumulate = Accumulate::kAdd;
    exec.ops.DepthToSpace(scratch.x(), move, out);
  }
  scratch.MoveTo(2, upsampled);
}

void VideoDecoder::Forward(Exec& exec, const Tensor& latent, Tensor out) const {
  ArenaScope temp(exec.arena);
  VideoScratch scratch(temp, exec.dtype, LargestActivation(latent.shape()),
                       WithChannels(latent.shape(), config_.first_width()));
  const Tensor denormalised = scratch.View(1, latent.shape());
  exec.ops.Affine(latent, std_, mean_, denormalised);
  Tap(exec, "denormalised", denormalised);
  conv_in_.Forward(exec, denormalised, Accumulate::kNo, scratch.x());
  Tap(exec, "conv_in", scratch.x());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (config_.blocks[i].kind == Kind::kUpsample) RunUpsample(exec, config_.blocks[i], blocks_[i], scratch);
    for (const VideoResNet& resnet : blocks_[i].resnets) resnet.Forward(exec, scratch);
    Tap(exec, absl::StrCat("up_blocks.", i), scratch.x());
  }
  exec.ops.RmsNorm(scratch.x(), /*weight=*/nullptr, kPixelNormEps, Activation::kSilu, scratch.x());
  ArenaScope tail(exec.arena);
  const Tensor patches = tail.Alloc(DType::kF32, WithChannels(scratch.shape(), config_.conv_out_channels()));
  conv_out_.Forward(exec, scratch.x(), Accumulate::kNo, patches);
  const int patch = static_cast<int>(config_.patch_size);
  exec.ops.DepthToSpace(patches, {.factor = {.height = patch, .width = patch}}, out);
}

}  // namespace kinora
