// Parameters of ops on pixels: convolutions, exchanges of channels and pixels, pictures. All others are in op_params.h.
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
// Attention of a box of a grid's positions to the window around each (Hassani et al., "Faster Neighborhood Attention",
// 2024; NATTEN na3d): the keys of position i of an axis of L are those from clamp(i − K / 2, 0, L − K) on, K of them,
// with K = min(window, L). Softmax of scale · q kᵀ. A row has the same bits for every box of a grid, and also if the
// grid is cut out of a larger one in time and both it and the box begin there at multiples of kNeighbourhoodFrames.
inline constexpr int kNeighbourhoodFrames = 4;
struct NeighbourhoodOptions {
  int heads = 0;  // of width d, a multiple of 8, at most kMaxNeighbourhoodHeadWidth
  float scale = 1.0f;
  SpaceTime grid{};                                     // of k and v: rows are positions, time slowest, width fastest
  SpaceTime window{};                                   // odd extents
  SpaceTime first{.time = 0, .height = 0, .width = 0};  // of the box, in the grid
  SpaceTime queries{};                                  // the box's extents
};
struct DepthToSpaceOptions {
  SpaceTime factor{};
  bool drop_first = false;                  // leaves out the first output frame
  bool channels_outer = false;              // x's order is (c, time, height, width), not (time, height, width, c)
  Accumulate accumulate = Accumulate::kNo;  // kNo or kAdd
};
// Out's channels are a block's values in the order (c, time, height, width).
struct SpaceToDepthOptions {
  SpaceTime factor{};
  bool repeat_first = false;                // as if x began with a copy of its first frame
  bool width_before_height = false;         // a block's order is (c, time, width, height)
  int64_t mean_of = 1;                      // each of out's channels is the mean of this many values
  Accumulate accumulate = Accumulate::kNo;  // kNo or kAdd
};

// Weights of pictures [frames, height, width, colours], f32. A value's weight is the product of its frame's, its row's
// and its column's.
struct PixelWeights {
  Tensor frames{}, rows{};  // [frames], [height]
  Tensor columns{};         // [width·colours]: a column's weight, repeated for each colour
};
struct TileBlend {
  PixelWeights weights{};
  int64_t row = 0, column = 0;  // of sums, where the tile begins in each frame
};
struct Rgb8Options {
  PixelWeights weights{};  // divisors of sums, at least 1e-8; undefined: no division
  Tensor rgb{};  // out, like sums, and may be sums: the values in 0..1 that become bytes; undefined: not written
  int32_t first_frame = 0;  // number of sums' first frame
  Tensor first_bad{};       // [1] i32, inout: lowered to the number of the first frame with a NaN
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_PIXEL_PARAMS_H_
