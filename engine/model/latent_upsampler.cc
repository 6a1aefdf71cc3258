#include "engine/model/latent_upsampler.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

constexpr float kNormEps = 1e-5f;  // torch's default; no configuration has a key for it
constexpr int64_t kFilterTaps = 5;
constexpr ConvAxis kThreeTaps{.kernel = 3, .before = 1, .after = 1};

}  // namespace

absl::StatusOr<Weight> LatentUpsampler::LoadConv(WeightLoader& weights, std::string_view name, int64_t in,
                                                 int64_t out) const {
  const Shape kernel = config_.over_time ? Shape{3, 3, 3} : Shape{3, 3};
  return weights.LoadConv(name, {.out = out, .in = in, .kernel = kernel});
}

absl::StatusOr<LatentUpsampler::Norm> LatentUpsampler::LoadNorm(WeightLoader& weights, std::string_view name) const {
  Norm norm;
  KINORA_ASSIGN_OR_RETURN(norm.weight, weights.LoadTensor(Cat(name, ".weight"), {config_.mid_channels}));
  KINORA_ASSIGN_OR_RETURN(norm.bias, weights.LoadTensor(Cat(name, ".bias"), {config_.mid_channels}));
  return norm;
}

absl::StatusOr<std::vector<LatentUpsampler::ResNet>> LatentUpsampler::LoadBlocks(WeightLoader& weights,
                                                                                 std::string_view name) const {
  std::vector<ResNet> blocks(config_.blocks);
  const int64_t mid = config_.mid_channels;
  for (int64_t i = 0; i < config_.blocks; ++i) {
    WeightLoader block = weights.Under(Cat(name, ".", i));
    KINORA_ASSIGN_OR_RETURN(blocks[i].conv1, LoadConv(block, "conv1", mid, mid));
    KINORA_ASSIGN_OR_RETURN(blocks[i].norm1, LoadNorm(block, "norm1"));
    KINORA_ASSIGN_OR_RETURN(blocks[i].conv2, LoadConv(block, "conv2", mid, mid));
    KINORA_ASSIGN_OR_RETURN(blocks[i].norm2, LoadNorm(block, "norm2"));
  }
  return blocks;
}

absl::Status LatentUpsampler::LoadUpsampling(WeightLoader weights) {
  const UpsamplerConfig& c = config_;
  const Shape kernel = upsampling_over_time() ? Shape{3, 3, 3} : Shape{3, 3};
  const ChannelOrder order = {.factor = {.time = c.time_up, .height = c.space_up, .width = c.space_up}};
  KINORA_ASSIGN_OR_RETURN(
      upsampling_,
      weights.LoadConv("conv",
                       {.out = c.mid_channels * c.parts(), .in = c.mid_channels, .kernel = kernel, .order = order}));
  if (c.space_down == 1) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(filter_, weights.LoadTensor("blur_down.kernel", {1, 1, kFilterTaps, kFilterTaps}));
  return absl::OkStatus();
}

absl::StatusOr<LatentUpsampler> LatentUpsampler::Load(WeightLoader weights, const WeightLoader& vae,
                                                      const UpsamplerConfig& config) {
  LatentUpsampler u;
  u.config_ = config;
  const int64_t latent = config.latent_channels, mid = config.mid_channels;
  WeightLoader statistics = vae.Under("per_channel_statistics");
  KINORA_ASSIGN_OR_RETURN(u.mean_, statistics.LoadTensor("mean-of-means", {latent}));
  KINORA_ASSIGN_OR_RETURN(u.std_, statistics.LoadTensor("std-of-means", {latent}));
  KINORA_ASSIGN_OR_RETURN(u.normalizer_, LatentNormalizer::Load(statistics, latent));
  KINORA_ASSIGN_OR_RETURN(u.initial_conv_, u.LoadConv(weights, "initial_conv", latent, mid));
  KINORA_ASSIGN_OR_RETURN(u.initial_norm_, u.LoadNorm(weights, "initial_norm"));
  KINORA_ASSIGN_OR_RETURN(u.before_, u.LoadBlocks(weights, "res_blocks"));
  KINORA_RETURN_IF_ERROR(u.LoadUpsampling(weights.Under("upsampler")));
  KINORA_ASSIGN_OR_RETURN(u.after_, u.LoadBlocks(weights, "post_upsample_res_blocks"));
  KINORA_ASSIGN_OR_RETURN(u.final_conv_, u.LoadConv(weights, "final_conv", mid, latent));
  return u;
}

void LatentUpsampler::Conv(Exec& exec, const Tensor& x, const Weight& conv, bool over_time, Tensor out) const {
  ConvOptions options{.height = kThreeTaps, .width = kThreeTaps};
  if (over_time) options.time = kThreeTaps;
  exec.ops.Conv(x, conv, options, out);
}

GroupNormParams LatentUpsampler::ParamsOf(const Norm& norm, const Shape& x) const {
  return {.weight = norm.weight,
          .bias = norm.bias,
          .groups = UpsamplerConfig::kGroups,
          .samples = config_.over_time ? 1 : x[0],
          .eps = kNormEps};
}

void LatentUpsampler::RunBlock(Exec& exec, const ResNet& block, VideoScratch& s) const {
  const Tensor x = s.x(), hidden = s.View(1, s.shape()), sum = s.View(2, s.shape());
  Conv(exec, x, block.conv1, config_.over_time, hidden);
  exec.ops.GroupNormThenSilu(hidden, ParamsOf(block.norm1, s.shape()), /*residual=*/nullptr, hidden);
  Conv(exec, hidden, block.conv2, config_.over_time, sum);
  exec.ops.GroupNormThenSilu(sum, ParamsOf(block.norm2, s.shape()), &x, sum);
  s.MoveTo(2, s.shape());
}

void LatentUpsampler::RunBlocks(Exec& exec, const std::vector<ResNet>& blocks, std::string_view name,
                                VideoScratch& s) const {
  for (size_t i = 0; i < blocks.size(); ++i) {
    RunBlock(exec, blocks[i], s);
    if (exec.taps != nullptr) Tap(exec, Cat(name, ".", i), s.x());
  }
}

void LatentUpsampler::Upsample(Exec& exec, VideoScratch& s) const {
  const UpsamplerConfig& c = config_;
  const Tensor parts = s.View(1, WithChannels(s.shape(), c.mid_channels * c.parts()));
  Conv(exec, s.x(), upsampling_, upsampling_over_time(), parts);
  const SpaceTime factor{.time = c.time_up, .height = c.space_up, .width = c.space_up};
  const bool drop_first = c.time_up > 1;
  const Shape moved = {s.shape()[0] * c.time_up - (drop_first ? 1 : 0), s.shape()[1] * c.space_up,
                       s.shape()[2] * c.space_up, c.mid_channels};
  exec.ops.DepthToSpace(parts, {.factor = factor, .drop_first = drop_first}, s.View(2, moved));
  s.MoveTo(2, moved);
  if (c.space_down == 1) return;
  const Shape kept = WithChannels(
      c.OutputShape({s.shape()[0], s.shape()[1] / c.space_up, s.shape()[2] / c.space_up, 0}), c.mid_channels);
  const Tensor filter = filter_.tensor().Reshape({kFilterTaps, kFilterTaps});
  exec.ops.Blur(s.x(), filter, c.space_down, s.View(1, kept));
  s.MoveTo(1, kept);
}

int64_t LatentUpsampler::LargestActivation(const Shape& latent) const {
  const int64_t positions = latent[0] * latent[1] * latent[2];
  return positions * std::max(config_.latent_channels, config_.mid_channels * config_.parts());
}

void LatentUpsampler::Forward(Exec& exec, const Tensor& latent, Tensor out) const {
  const Shape& shape = latent.shape();
  KINORA_CHECK(shape.rank() == 4 && shape[3] == config_.latent_channels) << shape.ToString();
  KINORA_CHECK(out.shape() == config_.OutputShape(shape)) << shape.ToString() << " to " << out.shape().ToString();
  ArenaScope temp(exec.arena);
  VideoScratch s(temp, exec.dtype, LargestActivation(shape), WithChannels(shape, config_.mid_channels));
  const Tensor denormalised = s.View(1, shape);
  exec.ops.Affine(latent, std_, mean_, denormalised);
  Tap(exec, "denormalised", denormalised);
  Conv(exec, denormalised, initial_conv_, config_.over_time, s.x());
  exec.ops.GroupNormThenSilu(s.x(), ParamsOf(initial_norm_, s.shape()), /*residual=*/nullptr, s.x());
  Tap(exec, "initial", s.x());
  RunBlocks(exec, before_, "res_blocks", s);
  Upsample(exec, s);
  Tap(exec, "upsampled", s.x());
  RunBlocks(exec, after_, "post_upsample_res_blocks", s);
  Conv(exec, s.x(), final_conv_, config_.over_time, out);
  normalizer_.Forward(exec, out, out);
}

}  // namespace kinora
