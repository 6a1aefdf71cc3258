// The 3×3×3 convolution of the video VAE (ltx_core/model/video_vae/convolution.py, CausalConv3d).
// Space is padded by one with zeros or by reflection; time by repeating the first and last frame, never with zeros:
// causal repeats the first frame twice in front, otherwise one on each side. Frames, height and width stay as they are.
#ifndef KINORA_ENGINE_MODEL_CAUSAL_CONV_H_
#define KINORA_ENGINE_MODEL_CAUSAL_CONV_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/config.h"
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
    ChannelOrder order{};  // of the output channels, if depth-to-space follows
    int64_t kept = 0;      // ConvSpec::kept
    bool repeat_first =
        false;  // causal: x begins with one more copy of its first frame, and so the result has one more
  };
  CausalConv() = default;
  // Reads `name`.conv.weight [out, in, 3, 3, 3] and `name`.conv.bias [out].
  static absl::StatusOr<CausalConv> Load(WeightLoader& weights, std::string_view name, const Options& options);

  // x: [frames, height, width, in]   out: [frames (+ 1: repeat_first), height, width, out or kept], = or += (kAdd);
  // must not overlap x. Reflection needs a height and width of 2 or more.
  void Forward(Exec& exec, const Tensor& x, Accumulate accumulate, Tensor out) const;

 private:
  Weight weight_;
  ConvOptions conv_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_CAUSAL_CONV_H_
