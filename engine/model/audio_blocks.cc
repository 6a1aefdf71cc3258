#include "engine/model/audio_blocks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<Weight> LoadAudioConv(WeightLoader& weights, std::string_view name, int64_t in, int64_t out, int kernel,
                                     int64_t kept) {
  return weights.LoadConv(absl::StrCat(std::string(name), ".conv"),
                          {.out = out, .in = in, .kernel = {kernel, kernel}, .kept = kept});
}

ConvOptions AudioConvOptions(int skip) {
  return {.height = {.kernel = kAudioKernel, .before = kAudioKernel - 1 - skip},
          .width = {.kernel = kAudioKernel, .before = kAudioKernel / 2, .after = kAudioKernel / 2}};
}

AudioScratch::AudioScratch(ArenaScope& arena, DType dtype, int64_t elements, const Shape& first)
    : x(arena.Alloc(dtype, {elements})),
      normed(arena.Alloc(dtype, {elements})),
      hidden(arena.Alloc(dtype, {elements})),
      shape(first) {}

absl::StatusOr<AudioResNet> AudioResNet::Load(WeightLoader weights, int64_t in, int64_t out) {
  AudioResNet resnet;
  KINORA_ASSIGN_OR_RETURN(resnet.conv1_, LoadAudioConv(weights, "conv1", in, out));
  KINORA_ASSIGN_OR_RETURN(resnet.conv2_, LoadAudioConv(weights, "conv2", out, out));
  if (in != out) {
    KINORA_ASSIGN_OR_RETURN(resnet.shortcut_, LoadAudioConv(weights, "nin_shortcut", in, out, /*kernel=*/1));
  }
  return resnet;
}

void AudioResNet::Forward(Exec& exec, AudioScratch& s) const {
  const Shape out_shape = s.WithChannels(conv1_.out());
  const Tensor x = s.X(), normed = AudioScratch::As(s.normed, s.shape), hidden = AudioScratch::As(s.hidden, out_shape);
  exec.ops.RmsNorm(x, /*weight=*/nullptr, kAudioNormEps, Activation::kSilu, normed);
  exec.ops.Conv(normed, conv1_, AudioConvOptions(), hidden);
  exec.ops.RmsNorm(hidden, /*weight=*/nullptr, kAudioNormEps, Activation::kSilu, hidden);
  if (shortcut_.has_value()) {
    exec.ops.Conv(x, *shortcut_, {}, AudioScratch::As(s.normed, out_shape));
    std::swap(s.x, s.normed);
    s.shape = out_shape;
  }
  ConvOptions add = AudioConvOptions();
  add.accumulate = Accumulate::kAdd;
  exec.ops.Conv(hidden, conv2_, add, s.X());
}

}  // namespace kinora
