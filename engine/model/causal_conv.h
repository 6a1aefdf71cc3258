// The 3×3×3 convolution of the video VAE (ltx_core/model/video_vae/convolution.py, CausalConv3d).
// Space is padded by one on each side, with zeros or by reflection. Time is padded by repeating frames: causal, the
// first frame twice in front; otherwise the first and the last frame once each. The output has the input's size.
#ifndef KINORA_ENGINE_MODEL_CAUSAL_CONV_H_
#define KINORA_ENGINE_MODEL_CAUSAL_CONV_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class CausalConv {
 public:
  struct Options {
    int64_t in = 0;
    int64_t out = 0;
    bool causal = false;
    SpatialPadding padding = SpatialPadding::kZeros;
    ChannelOrder order{};       // of the output channels, if depth-to-space follows
    int64_t kept = 0;           // ConvSpec::kept
    bool repeat_first = false;  // causal only: repeats the first frame once more, so the result has one more frame
  };
  CausalConv() = default;
  // Reads `name`.conv.weight [out, in, 3, 3, 3] and `name`.conv.bias [out].
  static absl::StatusOr<CausalConv> Load(WeightLoader& weights, std::string_view name, const Options& options);

  // x: [frames, height, width, in]   out: [frames (+ 1: repeat_first), height, width, out or kept], set or added to;
  // must not overlap x. Reflection needs a height and width of at least 2.
  void Forward(Exec& exec, const Tensor& x, Accumulate accumulate, Tensor out) const;

 private:
  Weight weight_;
  ConvOptions conv_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_CAUSAL_CONV_H_
