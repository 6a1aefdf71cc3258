// Tables of cosines and sines against double precision.
#include "kernels/rope_table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

// Steps between two float32 values of equal sign.
int64_t Ulps(float a, float b) {
  const auto order = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return int64_t{bits < 0 ? std::numeric_limits<int32_t>::min() - bits : bits};
  };
  return std::abs(order(a) - order(b));
}

class RopeTableTest : public OnAStream {
 protected:
  // Compares every value of a table with its definition.
  void Check(const RopeTable& shape, const Floats& fractions, const Floats& frequencies) {
    const DeviceArray<float> df(fractions, stream_), dq(frequencies, stream_);
    const Floats nans(shape.tokens * shape.columns + 1, std::nanf(""));
    const DeviceArray<float> dcos(nans, stream_), dsin(nans, stream_);
    RopeTable args = shape;
    args.fractions = df.data();
    args.frequencies = dq.data();
    args.cos = dcos.data();
    args.sin = dsin.data();
    ASSERT_EQ(LaunchRopeTable(args, stream_), cudaSuccess);
    const Floats cos = dcos.Read(stream_), sin = dsin.Read(stream_);
    for (int64_t i = 0; i < shape.tokens * shape.columns; ++i) {
      const int64_t token = i / shape.columns, turned = shape.first + i % shape.columns - shape.pad;
      double angle = 0;
      if (turned >= 0) {
        angle = fractions[turned % shape.axes * shape.tokens + token] * frequencies[turned / shape.axes];
      }
      ASSERT_LE(Ulps(cos[i], static_cast<float>(std::cos(angle))), 1) << i << ": " << angle;
      ASSERT_LE(Ulps(sin[i], static_cast<float>(std::sin(angle))), 1) << i << ": " << angle;
    }
    EXPECT_TRUE(std::isnan(cos.back()) && std::isnan(sin.back())) << "written past the end";
    EXPECT_EQ(simt::Failure(), "");
  }
};

TEST_F(RopeTableTest, EveryAxisAndColumnIsWithinAnUlpOfDoublePrecision) {
  for (const int axes : {1, 2, 3}) {
    const int count = 97, pad = axes - 1;
    const int64_t tokens = 9;
    Floats fractions, frequencies;
    for (int64_t i = 0; i < axes * tokens; ++i) {
      fractions.push_back(-1.0f + 0.0731f * static_cast<float>(i));
    }
    for (int k = 0; k < count; ++k) {
      frequencies.push_back(static_cast<float>(std::pow(1e4, k / (count - 1.0)) * 1.5707963267948966));
    }
    const int all = pad + axes * count;
    Check({.tokens = tokens, .columns = all, .pad = pad, .axes = axes, .count = count}, fractions, frequencies);
    // A rank's slice.
    Check({.tokens = tokens, .columns = all / 2, .first = all - all / 2, .pad = pad, .axes = axes, .count = count},
          fractions, frequencies);
  }
}

TEST_F(RopeTableTest, LargeAnglesKeepTheirDigits) {
  const Floats fractions = {0, -0.0f, 1, -1, 2.5f, -1000, 1e6f};
  const Floats frequencies = {1e-30f, 1.5707964f, 15707.963f, 3e8f};
  Check({.tokens = 7, .columns = 4, .axes = 1, .count = 4}, fractions, frequencies);
}

TEST_F(RopeTableTest, RefusesWhatIsMissing) {
  const DeviceArray<float> memory(Floats(64, 1.0f), stream_);
  float* const m = memory.data();
  const RopeTable good{.fractions = m,
                       .frequencies = m,
                       .cos = m + 16,
                       .sin = m + 32,
                       .tokens = 4,
                       .columns = 4,
                       .first = 1,
                       .pad = 1,
                       .axes = 2,
                       .count = 2};
  EXPECT_EQ(LaunchRopeTable(good, stream_), cudaSuccess);
  RopeTable none = good, narrow = good, wide = good, flat = good, nowhere = good, unknown = good;
  none.tokens = 0;
  narrow.columns = 0;
  wide.first = 2;
  flat.axes = 0;
  nowhere.sin = nullptr;
  unknown.frequencies = nullptr;
  for (const RopeTable& bad : {none, narrow, wide, flat, nowhere, unknown}) {
    EXPECT_EQ(LaunchRopeTable(bad, stream_), cudaErrorInvalidValue);
  }
}

}  // namespace
}  // namespace kinora::kernels
