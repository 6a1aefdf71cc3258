// Building blocks of the models over [frames, height, width, channels]: the video encoder, the video decoder and the
// latent upsamplers.
#ifndef KINORA_ENGINE_MODEL_VIDEO_BLOCKS_H_
#define KINORA_ENGINE_MODEL_VIDEO_BLOCKS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/causal_conv.h"
#include "engine/parallel/exec.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

constexpr float kPixelNormEps = 1e-8f;  // no configuration has a key for it

// x is [frames, height, width, ...].
inline Shape WithChannels(const Shape& x, int64_t channels) { return {x[0], x[1], x[2], channels}; }

// Three buffers of equal size. One holds the activations x; the other two are free.
class VideoScratch {
 public:
  // largest: elements of the largest activation. shape: initial shape of x.
  VideoScratch(ArenaScope& arena, DType dtype, int64_t largest, const Shape& shape) : dtype_(dtype), shape_(shape) {
    for (Tensor& buffer : buffers_) buffer = arena.Alloc(dtype, {largest});
  }

  const Shape& shape() const { return shape_; }
  Tensor x() const { return View(0, shape_); }
  // offset: 0 is the buffer of x; 1 and 2 are the free ones.
  Tensor View(int offset, const Shape& s) const { return Tensor(dtype_, s, buffers_[(current_ + offset) % 3].raw()); }
  // Makes View(offset, s) the new x.
  void MoveTo(int offset, const Shape& s) {
    current_ = (current_ + offset) % 3;
    shape_ = s;
  }

 private:
  DType dtype_;
  std::array<Tensor, 3> buffers_;
  int current_ = 0;
  Shape shape_;
};

// x + conv2(silu(norm(conv1(silu(norm(x)))))), with norms over the channels of a pixel: ltx_core's ResnetBlock3D.
class VideoResNet {
 public:
  // Reads `name`.conv1 and `name`.conv2.
  static absl::StatusOr<VideoResNet> Load(WeightLoader& weights, std::string_view name,
                                          const CausalConv::Options& options);
  void Forward(Exec& exec, const VideoScratch& scratch) const;  // x in place

 private:
  CausalConv conv1_, conv2_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_VIDEO_BLOCKS_H_
