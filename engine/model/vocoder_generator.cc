#include "engine/model/vocoder_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int kOuterKernel = 7;      // of conv_pre and conv_post
constexpr int64_t kFilterTaps = 12;  // of the anti-aliasing filters; fixed in the reference, values from the checkpoint
constexpr double kLastSlope = 0.01;  // of the leaky ReLU before conv_post, regardless of leaky_slope
constexpr float kSnakeEps = 1e-9f;

// A convolution that keeps the length. The kernel is odd (checked at load), so it can be centred.
ConvAxis Same(int kernel, int dilation = 1) {
  const int reach = (kernel - 1) * dilation / 2;
  return {.kernel = kernel, .dilation = dilation, .before = reach, .after = reach};
}

void Conv1d(Exec& exec, const Tensor& x, const Weight& weight, const ConvAxis& axis, Accumulate accumulate,
            Tensor out) {
  exec.ops.Conv(x.Reshape({1, x.dim(0), 1, x.dim(1)}), weight, {.height = axis, .accumulate = accumulate},
                out.Reshape({1, out.dim(0), 1, out.dim(1)}));
}

void LeakyRelu(Exec& exec, double slope, const Tensor& x, Tensor out) {
  exec.ops.Pointwise(x, {.kind = PointwiseFunction::kLeakyRelu, .a = static_cast<float>(slope)}, out);
}

absl::Status CheckConfig(const GeneratorConfig& config, std::string_view given_name) {
  const std::string name(given_name);
  if (config.activation == GeneratorConfig::Activation::kSnake) {
    return absl::UnimplementedError(absl::StrCat(name, ".activation: \"snake\" is not supported, \"snakebeta\" is"));
  }
  if (config.upsample_rates.size() != config.upsample_kernels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".upsample_kernel_sizes: needs as many entries as upsample_rates"));
  }
  for (size_t i = 0; i < config.upsample_rates.size(); ++i) {
    const int64_t rate = config.upsample_rates[i], kernel = config.upsample_kernels[i];
    if (rate < 1 || kernel < rate || (kernel - rate) % 2 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, ".upsample_kernel_sizes[", i, "]: ", kernel,
                                                     " must exceed the rate ", rate, " by an even number or nothing"));
    }
  }
  if (config.resblock_kernels.empty() || config.resblock_kernels.size() != config.resblock_dilations.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ".resblock_dilation_sizes: needs as many entries as resblock_kernel_sizes, and at least one"));
  }
  for (const int64_t kernel : config.resblock_kernels) {
    if (kernel < 1 || kernel % 2 == 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, ".resblock_kernel_sizes: ", kernel, " is not odd"));
    }
  }
  const int64_t last = config.hidden_channels >> config.upsample_rates.size();
  if (last < 1) {
    return absl::InvalidArgumentError(absl::StrCat(name, ".upsample_initial_channel: ", config.hidden_channels,
                                                   " cannot be halved ", config.upsample_rates.size(), " times"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Generator::Snake> Generator::LoadSnake(WeightLoader weights, int64_t channels) {
  Snake snake;
  KINORA_ASSIGN_OR_RETURN(HostParameter alpha, weights.LoadOnHost("act.alpha", {channels}));
  KINORA_ASSIGN_OR_RETURN(HostParameter beta, weights.LoadOnHost("act.beta", {channels}));
  // The file holds logarithms.
  alpha.Transform([](float x) { return std::exp(x); });
  beta.Transform([](float x) { return 1.0f / (std::exp(x) + kSnakeEps); });
  KINORA_ASSIGN_OR_RETURN(snake.frequency, weights.Upload(std::move(alpha)));
  KINORA_ASSIGN_OR_RETURN(snake.amplitude, weights.Upload(std::move(beta)));
  KINORA_ASSIGN_OR_RETURN(snake.up, weights.LoadTensor("upsample.filter", {1, 1, kFilterTaps}));
  KINORA_ASSIGN_OR_RETURN(snake.down, weights.LoadTensor("downsample.lowpass.filter", {1, 1, kFilterTaps}));
  return snake;
}

absl::StatusOr<Generator::Block> Generator::LoadBlock(WeightLoader weights, int64_t channels, int kernel,
                                                      const std::vector<int64_t>& dilations) const {
  Block block;
  for (size_t i = 0; i < dilations.size(); ++i) {
    Pair pair{.kernel = kernel, .dilation = static_cast<int>(dilations[i])};
    const ConvSpec spec{.out = channels, .in = channels, .kernel = {kernel}, .precision = DType::kF32};
    KINORA_ASSIGN_OR_RETURN(pair.conv1, weights.LoadConv(absl::StrCat("convs1.", i), spec));
    KINORA_ASSIGN_OR_RETURN(pair.conv2, weights.LoadConv(absl::StrCat("convs2.", i), spec));
    if (config_.anti_aliased()) {
      KINORA_ASSIGN_OR_RETURN(pair.bend1, LoadSnake(weights.Under(absl::StrCat("acts1.", i)), channels));
      KINORA_ASSIGN_OR_RETURN(pair.bend2, LoadSnake(weights.Under(absl::StrCat("acts2.", i)), channels));
    }
    block.push_back(std::move(pair));
  }
  return block;
}

absl::StatusOr<Generator> Generator::Load(WeightLoader weights, const GeneratorConfig& config, std::string_view name) {
  KINORA_RETURN_IF_ERROR(CheckConfig(config, name));
  Generator g;
  g.config_ = config;
  const ConvSpec pre{
      .out = config.hidden_channels, .in = config.in_channels, .kernel = {kOuterKernel}, .precision = DType::kF32};
  KINORA_ASSIGN_OR_RETURN(g.conv_pre_, weights.LoadConv("conv_pre", pre));
  int64_t width = config.hidden_channels;
  const size_t blocks = config.resblock_kernels.size();
  for (size_t i = 0; i < config.upsample_rates.size(); ++i) {
    Stage stage;
    const int64_t out = config.stage_channels(i);
    const TransposedConvSpec spec{.out = out,
                                  .in = width,
                                  .kernel = config.upsample_kernels[i],
                                  .stride = config.upsample_rates[i],
                                  .precision = DType::kF32};
    KINORA_ASSIGN_OR_RETURN(stage.upsample, weights.LoadTransposedConv(absl::StrCat("ups.", i), spec));
    for (size_t j = 0; j < blocks; ++j) {
      KINORA_ASSIGN_OR_RETURN(Block block,
                              g.LoadBlock(weights.Under(absl::StrCat("resblocks.", i * blocks + j)), out,
                                          static_cast<int>(config.resblock_kernels[j]), config.resblock_dilations[j]));
      stage.blocks.push_back(std::move(block));
    }
    g.stages_.push_back(std::move(stage));
    g.factor_ *= config.upsample_rates[i];
    width = out;
  }
  if (config.anti_aliased()) {
    KINORA_ASSIGN_OR_RETURN(g.bend_post_, LoadSnake(weights.Under("act_post"), width));
  }
  const ConvSpec post{.out = config.out_channels,
                      .in = width,
                      .kernel = {kOuterKernel},
                      .bias = config.final_bias,
                      .precision = DType::kF32};
  KINORA_ASSIGN_OR_RETURN(g.conv_post_, weights.LoadConv("conv_post", post));
  return g;
}

void Generator::BendThenConv(Exec& exec, const Snake& snake, double slope, const Tensor& x, const Weight& conv,
                             const ConvAxis& axis, Accumulate accumulate, Tensor bent, Tensor out) const {
  if (config_.anti_aliased()) {
    exec.ops.SnakeThenConv(
        x, {.frequency = snake.frequency, .amplitude = snake.amplitude, .up = snake.up, .down = snake.down}, conv, axis,
        accumulate, bent, out);
  } else {
    LeakyRelu(exec, slope, x, bent);
    Conv1d(exec, bent, conv, axis, accumulate, out);
  }
}

// Runs the transposed convolution as an ordinary one that computes the `rate` rows of each input row side by side:
// [rows, rate·c] is the same memory as [rows·rate, c].
void Generator::Upsample(Exec& exec, const TransposedConv& conv, const Tensor& x, Tensor out) const {
  Conv1d(exec, x, conv.weight, {.kernel = conv.taps, .before = conv.before, .after = conv.after}, Accumulate::kNo,
         out.Reshape({x.dim(0), conv.weight.out()}));
}

void Generator::RunBlock(Exec& exec, const Block& block, Tensor x, Tensor bent, Tensor hidden) const {
  for (const Pair& pair : block) {
    BendThenConv(exec, pair.bend1, config_.leaky_slope, x, pair.conv1, Same(pair.kernel, pair.dilation),
                 Accumulate::kNo, bent, hidden);
    BendThenConv(exec, pair.bend2, config_.leaky_slope, hidden, pair.conv2, Same(pair.kernel), Accumulate::kAdd, bent,
                 x);
  }
}

void Generator::Forward(Exec& exec, const Tensor& x, Tensor out) const {
  KINORA_CHECK(x.width() == config_.in_channels) << x.shape().ToString();
  KINORA_CHECK(out.shape() == Shape({x.rows() * factor_, config_.out_channels})) << out.shape().ToString();
  int64_t rows = x.rows(), width = config_.hidden_channels, largest = rows * width;
  for (size_t i = 0; i < stages_.size(); ++i) {
    rows *= config_.upsample_rates[i];
    largest = std::max(largest, rows * config_.stage_channels(i));
  }
  ArenaScope temp(exec.arena);
  Tensor current = temp.Alloc(DType::kF32, {largest}), input = temp.Alloc(DType::kF32, {largest});
  Tensor branch = temp.Alloc(DType::kF32, {largest}), bent = temp.Alloc(DType::kF32, {largest});
  Tensor hidden = temp.Alloc(DType::kF32, {largest});
  rows = x.rows();
  const auto as = [&](const Tensor& buffer) { return buffer.Rows(0, rows * width).Reshape({rows, width}); };

  Conv1d(exec, x, conv_pre_, Same(kOuterKernel), Accumulate::kNo, as(current));
  Tap(exec, "conv_pre", as(current));
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (!config_.anti_aliased()) LeakyRelu(exec, config_.leaky_slope, as(current), as(current));
    const Tensor narrow = as(current);
    rows *= config_.upsample_rates[i];
    width = config_.stage_channels(i);
    Upsample(exec, stage.upsample, narrow, as(input));
    if (exec.taps != nullptr) Tap(exec, absl::StrCat("ups.", i), as(input));
    for (size_t j = 0; j < stage.blocks.size(); ++j) {  // the last block works in place; `current` is the sum
      const bool in_place = j > 0 && j + 1 == stage.blocks.size();
      const Tensor result = as(j == 0 ? current : in_place ? input : branch);
      if (!in_place) exec.ops.stream().Copy(as(input), result);
      RunBlock(exec, stage.blocks[j], result, as(bent), as(hidden));
      if (exec.taps != nullptr) Tap(exec, absl::StrCat("resblocks.", i * stage.blocks.size() + j), result);
      if (j > 0) exec.ops.Add(result, as(current));
    }
    exec.ops.Scale(as(current), 1.0f / static_cast<float>(stage.blocks.size()), as(current));
  }
  BendThenConv(exec, bend_post_, kLastSlope, as(current), conv_post_, Same(kOuterKernel), Accumulate::kNo, as(bent),
               out);
  Limit(exec, out);
}

void Generator::Limit(Exec& exec, const Tensor& out) const {
  switch (config_.final_activation) {
    case GeneratorConfig::Final::kNone:
      return;
    case GeneratorConfig::Final::kTanh:
      return exec.ops.Pointwise(out, {.kind = PointwiseFunction::kTanh}, out);
    case GeneratorConfig::Final::kClamp:
      return exec.ops.Pointwise(out, {.kind = PointwiseFunction::kClamp, .a = -1, .b = 1}, out);
  }
}

}  // namespace kinora
