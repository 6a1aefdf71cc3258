// Image filters against the definition in double precision.
#include "kernels/blur.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

struct Form {
  int64_t frames, height, width, channels, gap;
  int taps, stride;
};
constexpr Form kForms[] = {{1, 1, 1, 1, 0, 1, 1},
                           {2, 6, 9, 16, 0, 5, 2},
                           {1, 5, 4, 37, 3, 3, 1},
                           {1, 7, 3, 24, 8, 5, 4},
                           {3, 2, 2, 8, 0, 7, 2}};

class BlurTest : public OnAStream {};

TEST_F(BlurTest, IsItsDefinition) {
  for (const Form& f : kForms) {
    for (const Type type : {Type::kF32, Type::kBf16}) {
      const int64_t high = (f.height + f.stride - 1) / f.stride, wide = (f.width + f.stride - 1) / f.stride;
      const int64_t pixels = f.frames * f.height * f.width, out_pixels = f.frames * high * wide;
      const Floats x = Values(pixels * f.channels, 1, type), filter = Values(int64_t{f.taps} * f.taps, 2);
      Floats expected(out_pixels * f.channels);
      for (int64_t i = 0; i < static_cast<int64_t>(expected.size()); ++i) {
        const int64_t c = i % f.channels, w = i / f.channels % wide, h = i / f.channels / wide % high;
        double sum = 0;
        for (int tap = 0; tap < f.taps * f.taps; ++tap) {
          const int64_t row = h * f.stride - f.taps / 2 + tap / f.taps, at = w * f.stride - f.taps / 2 + tap % f.taps;
          if (row < 0 || row >= f.height || at < 0 || at >= f.width) continue;
          const int64_t frame = i / f.channels / wide / high;
          sum += static_cast<double>(filter[tap]) * x[((frame * f.height + row) * f.width + at) * f.channels + c];
        }
        expected[i] = static_cast<float>(sum);
      }
      const Matrix dx(x, pixels, f.channels, f.gap, type, stream_);
      const Matrix out(Floats(expected.size(), std::nanf("")), out_pixels, f.channels, f.gap, type, stream_);
      const DeviceArray<float> df(filter, stream_);
      ASSERT_EQ(LaunchBlur({.x = dx.rows(),
                            .out = out.rows(),
                            .frames = f.frames,
                            .height = f.height,
                            .width = f.width,
                            .channels = f.channels,
                            .filter = df.data(),
                            .taps = f.taps,
                            .stride = f.stride},
                           stream_),
                cudaSuccess);
      ExpectNear(out.Read(), expected, type, "out");
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(BlurTest, RefusesWhatIsMissing) {
  const DeviceArray<float> memory(Floats(256, 1.0f), stream_);
  const Rows rows{.data = memory.data(), .stride = 4};
  const Blur good{
      .x = rows, .out = rows, .frames = 1, .height = 2, .width = 2, .channels = 4, .filter = memory.data(), .taps = 3};
  const auto refused = [&](const auto& change) {
    Blur bad = good;
    change(bad);
    return LaunchBlur(bad, stream_) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](Blur& b) { b.taps = 4; })) << "an even filter";
  EXPECT_TRUE(refused([](Blur& b) { b.stride = 0; }));
  EXPECT_TRUE(refused([](Blur& b) { b.filter = nullptr; }));
  EXPECT_TRUE(refused([](Blur& b) { b.out.type = Type::kBf16; }));
  EXPECT_TRUE(refused([](Blur& b) { b.height = 0; }));
}

}  // namespace
}  // namespace kinora::kernels
