#include "engine/model/video_blocks.h"

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {

absl::StatusOr<VideoResNet> VideoResNet::Load(WeightLoader& weights, std::string_view name,
                                              const CausalConv::Options& options) {
  VideoResNet resnet;
  KINORA_ASSIGN_OR_RETURN(resnet.conv1_, CausalConv::Load(weights, Cat(name, ".conv1"), options));
  KINORA_ASSIGN_OR_RETURN(resnet.conv2_, CausalConv::Load(weights, Cat(name, ".conv2"), options));
  return resnet;
}

void VideoResNet::Forward(Exec& exec, const VideoScratch& scratch) const {
  const Tensor x = scratch.x();
  const Tensor normed = scratch.View(1, scratch.shape()), hidden = scratch.View(2, scratch.shape());
  exec.ops.RmsNorm(x, /*weight=*/nullptr, kPixelNormEps, Activation::kSilu, normed);
  conv1_.Forward(exec, normed, Accumulate::kNo, hidden);
  exec.ops.RmsNorm(hidden, /*weight=*/nullptr, kPixelNormEps, Activation::kSilu, hidden);
  conv2_.Forward(exec, hidden, Accumulate::kAdd, x);
}

}  // namespace kinora
