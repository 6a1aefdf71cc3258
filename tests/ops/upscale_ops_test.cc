// Depth-to-space and pixel repetition on every backend, bit for bit if nothing is added.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "tests/testing/backends.h"

namespace kinora {
namespace {

HostTensor Random(DType dtype, const Shape& shape, int seed) {
  HostTensor t(dtype, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto set = [&](int64_t i, float v) {
    if (dtype == DType::kF32) {
      t.f32()[i] = v;
    } else {
      t.tensor().data<bf16>()[i] = bf16(v);
    }
  };
  for (int64_t i = 0; i < shape.elements(); ++i) set(i, normal(random));
  set(0, std::numeric_limits<float>::quiet_NaN());
  set(shape.elements() - 1, -std::numeric_limits<float>::infinity());
  set(shape.elements() / 2, -0.0f);
  return t;
}

float Value(const Tensor& t, int64_t i) {
  return t.dtype() == DType::kF32 ? t.data<float>()[i] : static_cast<float>(t.data<bf16>()[i]);
}
float Rounded(DType dtype, float v) { return dtype == DType::kF32 ? v : static_cast<float>(bf16(v)); }

void ExpectSame(const Tensor& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.elements(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < got.elements(); ++i) {
    const float v = Value(got, i);
    if (expected[i] != expected[i]) {
      ASSERT_NE(v, v) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(v), std::bit_cast<uint32_t>(expected[i])) << i;
    }
  }
}

struct Case {
  Shape x;
  SpaceTime factor;
  int64_t out_width;
  bool drop_first = false, channels_outer = false, add = false;
};

class UpscaleOps : public OpTest {
 protected:
  void RunCase(const Case& c, DType dtype);
  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(On, UpscaleOps, testing::ValuesIn(Backends()), BackendName);

void UpscaleOps::RunCase(const Case& c, DType dtype) {
  const SpaceTime& s = c.factor;
  const Shape shape{c.x[0] * s.time - (c.drop_first ? 1 : 0), c.x[1] * s.height, c.x[2] * s.width, c.out_width};
  const HostTensor x = Random(dtype, c.x, 1), before = Random(dtype, shape, 2);
  const Tensor out = device_.Upload(before.tensor());
  device_.ops().DepthToSpace(device_.Upload(x.tensor()),
                             {.factor = s,
                              .drop_first = c.drop_first,
                              .channels_outer = c.channels_outer,
                              .accumulate = c.add ? Accumulate::kAdd : Accumulate::kNo},
                             out);
  const int64_t channels = c.x[3] / s.product();
  std::vector<float> expected;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t o = i % shape[3], w = i / shape[3] % shape[2], h = i / shape[3] / shape[2] % shape[1];
    const int64_t t = i / shape[3] / shape[2] / shape[1] + (c.drop_first ? 1 : 0);
    const int64_t pixel = (t / s.time * c.x[1] + h / s.height) * c.x[2] + w / s.width;
    const int64_t part = (t % s.time * s.height + h % s.height) * s.width + w % s.width;
    const int64_t channel = c.channels_outer ? o % channels * s.product() + part : part * channels + o;
    const float value = Value(x.tensor(), pixel * c.x[3] + channel);
    expected.push_back(c.add ? Rounded(dtype, value + Value(before.tensor(), i)) : value);
  }
  ExpectSame(device_.Download(out).tensor(), expected);
}

TEST_P(UpscaleOps, DepthToSpaceMovesChannelsForEveryOption) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool add : {false, true}) {
      for (const bool drop : {false, true}) {
        RunCase({.x = {2, 3, 4, 64}, .factor = {2, 2, 2}, .out_width = 8, .drop_first = drop, .add = add}, dtype);
        RunCase({.x = {2, 3, 4, 64},
                 .factor = {2, 2, 2},
                 .out_width = 32,
                 .drop_first = drop,
                 .channels_outer = true,
                 .add = add},
                dtype);
        RunCase({.x = {3, 2, 2, 6}, .factor = {.time = 2}, .out_width = 3, .drop_first = drop, .add = add}, dtype);
      }
      RunCase({.x = {2, 3, 5, 48}, .factor = {1, 4, 4}, .out_width = 3, .add = add}, dtype);
      RunCase({.x = {1, 7, 1, 80}, .factor = {1, 1, 16}, .out_width = 5, .channels_outer = true, .add = add}, dtype);
      RunCase({.x = {1, 7, 1, 128}, .factor = {1, 1, 16}, .out_width = 8, .channels_outer = true, .add = add}, dtype);
      RunCase({.x = {1, 1, 1, 1}, .factor = {}, .out_width = 1, .add = add}, dtype);
    }
  }
}

struct BlockCase {
  Shape x;
  SpaceTime factor;
  int64_t mean_of = 1;
  bool repeat_first = false, width_before_height = false, add = false;
};

void ExpectBlocks(Device& device, const BlockCase& c, DType from, DType to) {
  const SpaceTime& s = c.factor;
  const int64_t parts = s.product(), width = c.x[3] * parts / c.mean_of;
  const Shape shape{(c.x[0] + c.repeat_first) / s.time, c.x[1] / s.height, c.x[2] / s.width, width};
  HostTensor x(from, c.x), before(to, shape), expected(DType::kF32, shape);
  const auto fill = [](HostTensor& t, int64_t salt) {
    for (int64_t i = 0; i < t.tensor().elements(); ++i) {
      const auto v = static_cast<float>((i * 37 + salt) % 251 - 125) / 64;
      if (t.tensor().dtype() == DType::kF32) {
        t.f32()[i] = v;
      } else {
        t.tensor().data<bf16>()[i] = bf16(v);
      }
    }
  };
  fill(x, 1);
  fill(before, 2);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t o = i % width, w = i / width % shape[2], h = i / width / shape[2] % shape[1],
                  f = i / width / shape[2] / shape[1];
    double sum = 0;
    for (int64_t k = o * c.mean_of; k < (o + 1) * c.mean_of; ++k) {
      const int64_t part = k % parts, within = part % (s.height * s.width);
      const int64_t ph = c.width_before_height ? within % s.height : within / s.width,
                    pw = c.width_before_height ? within / s.height : within % s.width;
      const int64_t t = std::max<int64_t>(0, f * s.time + part / (s.height * s.width) - c.repeat_first);
      const int64_t pixel = (t * c.x[1] + h * s.height + ph) * c.x[2] + w * s.width + pw;
      sum += Value(x.tensor(), pixel * c.x[3] + k / parts);
    }
    expected.f32()[i] =
        static_cast<float>(sum / static_cast<double>(c.mean_of) + (c.add ? Value(before.tensor(), i) : 0));
  }
  const Tensor out = device.Upload(before.tensor());
  device.ops().SpaceToDepth(device.Upload(x.tensor()),
                            {.factor = s,
                             .repeat_first = c.repeat_first,
                             .width_before_height = c.width_before_height,
                             .mean_of = c.mean_of,
                             .accumulate = c.add ? Accumulate::kAdd : Accumulate::kNo},
                            out);
  EXPECT_TRUE(Near(device.Floats(out), expected.tensor(), to == DType::kF32 ? 1e-6 : 4e-3)) << c.x.ToString();
}

TEST_P(UpscaleOps, SpaceToDepthPutsBlocksSideBySideOrAveragesThem) {
  for (const auto& [from, to] :
       {std::pair(DType::kF32, DType::kF32), {DType::kF32, DType::kBF16}, {DType::kBF16, DType::kBF16}}) {
    ExpectBlocks(device_, {.x = {2, 8, 12, 3}, .factor = {1, 4, 4}, .width_before_height = true}, from, to);
    ExpectBlocks(device_, {.x = {2, 4, 6, 5}, .factor = {1, 2, 3}, .width_before_height = true}, from, to);
    for (const bool add : {false, true}) {
      ExpectBlocks(device_, {.x = {3, 4, 6, 16}, .factor = {2, 2, 2}, .mean_of = 4, .repeat_first = true, .add = add},
                   from, to);
      ExpectBlocks(device_, {.x = {4, 4, 6, 7}, .factor = {2, 1, 1}, .add = add}, from, to);
      ExpectBlocks(device_, {.x = {1, 2, 2, 8}, .factor = {1, 2, 2}, .mean_of = 2, .add = add}, from, to);
      ExpectBlocks(device_, {.x = {1, 2, 2, 8}, .factor = {2, 2, 2}, .mean_of = 8, .repeat_first = true, .add = add},
                   from, to);
    }
  }
}

TEST_P(UpscaleOps, RepeatNearestKeepsTheBitsOfBothTypes) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t channels : {1, 5, 16}) {
      const HostTensor x = Random(dtype, {2, 3, 2, channels}, 3);
      const Tensor out = device_.Output(dtype, {4, 6, 6, channels});
      device_.ops().RepeatNearest(device_.Upload(x.tensor()), {2, 2, 3}, out);
      std::vector<float> expected;
      for (int64_t i = 0; i < out.elements(); ++i) {
        const int64_t w = i / channels % 6, h = i / channels / 6 % 6, t = i / channels / 36;
        expected.push_back(Value(x.tensor(), ((t / 2 * 3 + h / 2) * 2 + w / 3) * channels + i % channels));
      }
      ExpectSame(device_.Download(out).tensor(), expected);
    }
  }
}

}  // namespace
}  // namespace kinora
