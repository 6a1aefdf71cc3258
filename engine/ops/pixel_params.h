// Arguments of ops on pixels: convolutions, channels that become pixels and back, pictures. The others are in
// op_params.h.
#ifndef KINORA_ENGINE_OPS_PIXEL_PARAMS_H_
#define KINORA_ENGINE_OPS_PIXEL_PARAMS_H_

#include <compare>
#include <cstdint>

#include "engine/ops/op_params.h"

namespace kinora {

enum class Padding : uint8_t { kZeros, kReflect, kReplicate };
struct ConvAxis {
  int kernel = 1, stride = 1, dilation = 1;
  int before = 0, after = 0;  // padding
  Padding padding = Padding::kZeros;
  friend auto operator<=>(const ConvAxis&, const ConvAxis&) = default;  // NOLINT: a 0, no pointer
};
struct ConvOptions {
  ConvAxis time{}, height{}, width{};
  Activation activation = Activation::kNone;
  Accumulate accumulate = Accumulate::kNo;  // kNo or kAdd (a residual block's sum)
};
struct SpaceTime {  // a stride or factor per axis
  int time = 1, height = 1, width = 1;
  int product() const { return time * height * width; }
};
struct DepthToSpaceOptions {
  SpaceTime factor{};
  bool drop_first = false;                  // the first output frame
  bool channels_outer = false;              // of x: (c, time, height, width) instead of (time, height, width, c)
  Accumulate accumulate = Accumulate::kNo;  // kNo or kAdd
};
// A block's values in the order (c, time, height, width).
struct SpaceToDepthOptions {
  SpaceTime factor{};
  bool repeat_first = false;         // x begins with a copy of its first frame
  bool width_before_height = false;  // of a block's parts: (time, width, height) instead of (time, height, width)
  int64_t mean_of = 1;               // out's channels are means of as many neighbours
  Accumulate accumulate = Accumulate::kNo;  // kNo or kAdd
};

// The weight of a value of pictures [frames, height, width, colours] is the product of three; all f32.
struct PixelWeights {
  Tensor frames{}, rows{};  // [frames], [height]
  Tensor columns{};         // [width·colours]: a column's, for each of its colours
};
struct TileBlend {
  PixelWeights weights{};
  int64_t row = 0, column = 0;  // of the sums, where the tile begins in each frame
};
struct Rgb8Options {
  PixelWeights weights{};   // what sums are divided by, at least 1e-8; undefined: by nothing
  Tensor rgb{};             // as sums, and may be them: the values in 0..1 before they are bytes; undefined: not wanted
  int32_t first_frame = 0;  // the number of sums' first frame
  Tensor first_bad{};       // [1] i32, inout: that of the first frame that holds a NaN, if it is less
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_PIXEL_PARAMS_H_
