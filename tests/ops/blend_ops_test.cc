// Blending of tiles and conversion to bytes, on every backend: bit for bit as defined, with each product rounded
// separately.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/testing/backends.h"

namespace kinora {
namespace {

using Values = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kNone = std::numeric_limits<int32_t>::max();

Values Waves(int64_t count, int salt, float scale = 1.3f) {
  Values values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = scale * std::sin(0.37f * static_cast<float>(i % 9973 * 5 + salt));
  return values;
}

std::vector<uint32_t> Bits(const Values& values) {
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

// A product that the compiler cannot fuse with an addition.
float Product(float a, float b) {
  volatile float rounded = a * b;
  return rounded;
}

struct HostWeights {
  Values frames, rows, columns;
  HostWeights(const Shape& s, float low)
      : frames(Waves(s[0], 1, 0.4f)), rows(Waves(s[1], 2, 0.4f)), columns(Waves(s[2] * s[3], 3, 0.4f)) {
    for (Values* values : {&frames, &rows, &columns}) {
      for (float& v : *values) v = low + std::abs(v);
    }
  }
  PixelWeights On(Device& device) const {
    const auto upload = [&](const Values& v) { return device.Upload(v, {static_cast<int64_t>(v.size())}); };
    return {upload(frames), upload(rows), upload(columns)};
  }
};

class BlendOps : public OpTest {
 protected:
  void Add(const Shape& tile_shape, const Shape& sums_shape, int64_t row, int64_t column);
  struct Finished {
    std::vector<uint8_t> rgb8;
    Values rgb;
    int32_t bad = 0;
  };
  // in_place: the floats replace the sums.
  Finished Finish(const Shape& shape, const Values& sums, const HostWeights* weights, bool in_place, int32_t bad);

  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(On, BlendOps, testing::ValuesIn(Backends()), BackendName);

void BlendOps::Add(const Shape& tile_shape, const Shape& sums_shape, int64_t row, int64_t column) {
  const Values tile = Waves(tile_shape.elements(), 4);
  Values expected = Waves(sums_shape.elements(), 5);
  const HostWeights weights(tile_shape, 0.1f);
  const Tensor sums = device_.Upload(expected, sums_shape);
  device_.ops().AddTile(device_.Upload(tile, tile_shape), {weights.On(device_), row, column}, sums);
  const int64_t line = tile_shape[2] * tile_shape[3], sums_line = sums_shape[2] * sums_shape[3];
  for (int64_t i = 0; i < tile_shape.elements(); ++i) {
    const int64_t x = i % line, y = i / line % tile_shape[1], f = i / line / tile_shape[1];
    const float weighted = Product(Product(Product(tile[i], weights.frames[f]), weights.rows[y]), weights.columns[x]);
    expected[((f * sums_shape[1]) + row + y) * sums_line + column * tile_shape[3] + x] += weighted;
  }
  EXPECT_EQ(Bits(device_.Floats(sums)), Bits(expected)) << tile_shape.ToString() << " in " << sums_shape.ToString();
}

TEST_P(BlendOps, TilesAreAddedWhereTheyLie) {
  Add({3, 4, 8, 3}, {3, 4, 8, 3}, 0, 0);
  Add({2, 3, 8, 3}, {2, 7, 24, 3}, 4, 16);    // vectors of eight, in larger frames
  Add({2, 3, 8, 3}, {2, 7, 24, 3}, 2, 5);     // the same, unaligned
  Add({2, 3, 5, 3}, {2, 5, 7, 3}, 1, 2);      // no vectors
  Add({1, 2, 200, 3}, {1, 3, 301, 3}, 1, 8);  // lines of several blocks, sums without vectors
  Add({1, 1, 1, 1}, {1, 1, 1, 1}, 0, 0);
}

BlendOps::Finished BlendOps::Finish(const Shape& shape, const Values& sums, const HostWeights* weights, bool in_place,
                                    int32_t bad) {
  HostTensor word(DType::kI32, {1});
  *word.tensor().data<int32_t>() = bad;
  const Tensor on_device = device_.Upload(sums, shape), rgb8 = device_.Output(DType::kU8, shape);
  const Rgb8Options options{.weights = weights != nullptr ? weights->On(device_) : PixelWeights{},
                            .rgb = in_place ? on_device : device_.Output(DType::kF32, shape),
                            .first_frame = 10,
                            .first_bad = device_.Upload(word.tensor())};
  device_.ops().FinishRgb8(on_device, options, rgb8);
  const HostTensor bytes = device_.Download(rgb8);
  const auto* begin = bytes.tensor().data<uint8_t>();
  Finished finished{.rgb8 = {begin, begin + rgb8.elements()}, .rgb = device_.Floats(options.rgb)};
  finished.bad = *device_.Download(options.first_bad).tensor().data<int32_t>();
  if (!in_place) {
    EXPECT_EQ(Bits(device_.Floats(on_device)), Bits(sums));
    Rgb8Options bytes_alone = options;  // without the float output
    bytes_alone.rgb = Tensor();
    const Tensor again = device_.Output(DType::kU8, shape);
    device_.ops().FinishRgb8(on_device, bytes_alone, again);
    const HostTensor same = device_.Download(again);
    EXPECT_TRUE(std::equal(finished.rgb8.begin(), finished.rgb8.end(), same.tensor().data<uint8_t>()));
  }
  return finished;
}

TEST_P(BlendOps, SumsBecomeBytesThatAreCutOff) {
  const HostWeights* const none = nullptr;
  for (const Shape& shape : {Shape{2, 3, 16, 3}, {3, 2, 5, 3}, {1, 2, 700, 3}, {2, 9, 16, 1}}) {
    const HostWeights divisors(shape, 0.2f);
    for (const HostWeights* weights : {none, &divisors}) {
      for (const bool in_place : {false, true}) {
        const Values sums = Waves(shape.elements(), 6);
        const Finished got = Finish(shape, sums, weights, in_place, kNone);
        const int64_t line = shape[2] * shape[3];
        for (int64_t i = 0; i < shape.elements(); ++i) {
          float v = sums[i];
          if (weights != nullptr) {
            const float row = Product(weights->frames[i / line / shape[1]], weights->rows[i / line % shape[1]]);
            v /= std::max(Product(row, weights->columns[i % line]), 1e-8f);
          }
          v = std::clamp((v + 1) * 0.5f, 0.0f, 1.0f);
          ASSERT_EQ(std::bit_cast<uint32_t>(got.rgb[i]), std::bit_cast<uint32_t>(v)) << shape.ToString() << " " << i;
          ASSERT_EQ(got.rgb8[i], static_cast<uint8_t>(v * 255.0f)) << shape.ToString() << " " << i;
        }
        EXPECT_EQ(got.bad, kNone);
      }
    }
  }
}

TEST_P(BlendOps, EndsOfTheRangeAndInfinitiesAreClamped) {
  const float inf = std::numeric_limits<float>::infinity();
  const Values sums = {-1, 1, 0.999f, -2, 2, inf, -inf, -0.0f, 1e-40f, -1e-40f, 0.9921875f, 0.5f, 0, 0, 0, 0};
  const Finished got = Finish({1, 1, 16, 1}, sums, nullptr, false, kNone);
  const std::vector<uint8_t> expected = {0, 255, 254, 0, 255, 255, 0, 127, 127, 127, 254, 191, 127, 127, 127, 127};
  EXPECT_EQ(got.rgb8, expected);
  EXPECT_EQ(got.bad, kNone);
}

TEST_P(BlendOps, TheFirstFrameWithANanIsNamed) {
  for (const Shape& shape : {Shape{4, 2, 16, 3}, {4, 3, 5, 3}}) {
    Values sums = Waves(shape.elements(), 7);
    const int64_t frame = shape.elements() / 4;
    sums[3 * frame] = sums[2 * frame + frame - 1] = kNan;
    const Finished got = Finish(shape, sums, nullptr, true, kNone);
    EXPECT_EQ(got.bad, 12) << shape.ToString();
    EXPECT_EQ(got.rgb8[3 * frame], 0);
    EXPECT_EQ(got.rgb[3 * frame], 0);
    EXPECT_EQ(Finish(shape, sums, nullptr, false, 4).bad, 4) << "one that was known before";
  }
}

TEST_P(BlendOps, WeightsThatAreNothingDivideByALittle) {
  HostWeights weights({1, 1, 16, 1}, 1.0f);
  weights.rows = {0};
  const Finished got = Finish({1, 1, 16, 1}, Values(16, 0.5e-8f), &weights, false, kNone);
  EXPECT_EQ(got.rgb, Values(16, 0.75f));
}

}  // namespace
}  // namespace kinora
