// Space to depth in all its forms, against the definition.
#include "kernels/space_to_depth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

struct Form {
  int64_t frames, height, width, channels;
  int time, high, wide;
  int64_t mean_of = 1;
  bool repeat_first = false, width_before_height = false, add = false;
  int64_t gap = 0;
};
constexpr Form kForms[] = {
    {.frames = 1, .height = 1, .width = 1, .channels = 1, .time = 1, .high = 1, .wide = 1},
    {.frames = 2,
     .height = 8,
     .width = 12,
     .channels = 3,
     .time = 1,
     .high = 4,
     .wide = 4,
     .width_before_height = true},
    {.frames = 3,
     .height = 4,
     .width = 6,
     .channels = 16,
     .time = 2,
     .high = 2,
     .wide = 2,
     .mean_of = 4,
     .repeat_first = true,
     .add = true},
    {.frames = 4, .height = 3, .width = 5, .channels = 7, .time = 2, .high = 1, .wide = 1, .gap = 3},
    {.frames = 1,
     .height = 4,
     .width = 6,
     .channels = 8,
     .time = 2,
     .high = 2,
     .wide = 3,
     .mean_of = 8,
     .repeat_first = true,
     .width_before_height = true,
     .gap = 8},
};

class SpaceToDepthTest : public OnAStream {};

Floats Define(const Form& f, const Floats& x, Floats out, Type to) {
  const int64_t parts = int64_t{f.time} * f.high * f.wide, width = f.channels * parts / f.mean_of;
  const int64_t wide = f.width / f.wide, high = f.height / f.high;
  for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
    const int64_t o = i % width, w = i / width % wide, h = i / width / wide % high, t = i / width / wide / high;
    double sum = 0;
    for (int64_t k = o * f.mean_of; k < (o + 1) * f.mean_of; ++k) {
      const int64_t part = k % parts, within = part % (f.high * f.wide);
      const int64_t ph = f.width_before_height ? within % f.high : within / f.wide;
      const int64_t pw = f.width_before_height ? within / f.high : within % f.wide;
      const int64_t frame = std::max<int64_t>(0, t * f.time + part / (f.high * f.wide) - f.repeat_first);
      sum += x[((frame * f.height + h * f.high + ph) * f.width + w * f.wide + pw) * f.channels + k / parts];
    }
    sum /= static_cast<double>(f.mean_of);
    out[i] = Rounded(static_cast<float>(f.add ? sum + out[i] : sum), to);
  }
  return out;
}

TEST_F(SpaceToDepthTest, IsItsDefinition) {
  for (const Form& f : kForms) {
    for (const Type type : {Type::kF32, Type::kBf16}) {
      for (const Type to : {Type::kF32, Type::kBf16}) {
        const int64_t parts = int64_t{f.time} * f.high * f.wide, width = f.channels * parts / f.mean_of;
        const int64_t pixels = f.frames * f.height * f.width,
                      blocks = (pixels + f.repeat_first * f.height * f.width) / parts;
        const Floats x = Values(pixels * f.channels, 1, type), before = Values(blocks * width, 2, to);
        const Matrix dx(x, pixels, f.channels, f.gap, type, stream_), out(before, blocks, width, f.gap, to, stream_);
        ASSERT_EQ(LaunchSpaceToDepth({.x = dx.rows(),
                                      .out = out.rows(),
                                      .frames = f.frames,
                                      .height = f.height,
                                      .width = f.width,
                                      .channels = f.channels,
                                      .time_factor = f.time,
                                      .height_factor = f.high,
                                      .width_factor = f.wide,
                                      .mean_of = f.mean_of,
                                      .repeat_first = f.repeat_first,
                                      .width_before_height = f.width_before_height,
                                      .add = f.add},
                                     stream_),
                  cudaSuccess);
        ExpectNear(out.Read(), Define(f, x, before, to), to, "out");
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(SpaceToDepthTest, RefusesWhatDoesNotDivide) {
  const DeviceArray<float> memory(Floats(256, 1.0f), stream_);
  const Rows rows{.data = memory.data(), .stride = 4};
  const SpaceToDepth good{.x = rows, .out = rows, .frames = 1, .height = 2, .width = 2, .channels = 4};
  const auto refused = [&](const auto& change) {
    SpaceToDepth bad = good;
    change(bad);
    return LaunchSpaceToDepth(bad, stream_) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](SpaceToDepth& s) { s.time_factor = 2; })) << "one frame";
  EXPECT_TRUE(refused([](SpaceToDepth& s) { s.width_factor = 3; }));
  EXPECT_TRUE(refused([](SpaceToDepth& s) { s.mean_of = 3; }));
  EXPECT_TRUE(refused([](SpaceToDepth& s) { s.height_factor = 0; }));
  EXPECT_TRUE(refused([](SpaceToDepth& s) { s.x.data = nullptr; }));
}

}  // namespace
}  // namespace kinora::kernels
