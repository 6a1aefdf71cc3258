// The vocoder's ops on every backend against plain loops in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/ops/op_checks.h"
#include "tests/testing/backends.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using Floats = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Floats Random(int64_t n, int seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  Floats values(n);
  for (float& v : values) v = normal(generator);
  return values;
}

class AudioOps : public OpTest {
 protected:
  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(On, AudioOps, testing::ValuesIn(Backends()), BackendName);

struct SnakeCase {
  int64_t rows, width, up_taps, down_taps;
};

// The definition step by step, as in BigVGAN: pad, insert zeros, filter, crop; activate; pad, filter, take every second
// value.
std::vector<double> SnakeByDefinition(const SnakeCase& c, const Floats& x, const Floats& frequency,
                                      const Floats& amplitude, const Floats& up, const Floats& down) {
  const auto at = [](int64_t i, int64_t n) { return std::min(std::max<int64_t>(i, 0), n - 1); };
  const int64_t pad = c.up_taps / 2 - 1, left = 2 * pad + (c.up_taps - 2) / 2;
  const int64_t before = c.down_taps / 2 - (c.down_taps % 2 == 0);
  std::vector<double> out(c.rows * c.width);
  for (int64_t channel = 0; channel < c.width; ++channel) {
    std::vector<double> stretched(2 * (c.rows + 2 * pad) + c.up_taps), doubled(2 * c.rows);
    for (int64_t i = 0; i < c.rows + 2 * pad; ++i) {
      for (int64_t k = 0; k < c.up_taps; ++k)
        stretched[2 * i + k] += x[at(i - pad, c.rows) * c.width + channel] * double{up[k]};
    }
    for (int64_t j = 0; j < 2 * c.rows; ++j) {
      const double u = 2 * stretched[j + left], s = std::sin(u * frequency[channel]);
      doubled[j] = u + amplitude[channel] * s * s;
    }
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t k = 0; k < c.down_taps; ++k) {
        out[i * c.width + channel] += doubled[at(2 * i - before + k, 2 * c.rows)] * double{down[k]};
      }
    }
  }
  return out;
}

TEST_P(AudioOps, SnakeIsPadStretchFilterActivateFilterAndHalve) {
  for (const SnakeCase& c : std::vector<SnakeCase>{{1, 1, 12, 12},
                                                   {2, 5, 12, 12},
                                                   {3, 16, 12, 12},
                                                   {63, 24, 12, 12},
                                                   {64, 7, 12, 12},
                                                   {65, 40, 12, 12},
                                                   {700, 33, 12, 12},
                                                   {9, 16, 8, 10},
                                                   {130, 18, 24, 13},
                                                   {5, 3, 2, 2}}) {
    const Floats x = Random(c.rows * c.width, 1), up = Random(c.up_taps, 2, 0.3f), down = Random(c.down_taps, 3, 0.3f),
                 frequency = Random(c.width, 4, 3), amplitude = Random(c.width, 5);
    const Tensor result = device_.Output(DType::kF32, {c.rows, c.width});
    device_.ops().Snake(device_.Upload(x, {c.rows, c.width}),
                        {.frequency = device_.Upload(frequency, {c.width}),
                         .amplitude = device_.Upload(amplitude, {c.width}),
                         .up = device_.Upload(up, {c.up_taps}),
                         .down = device_.Upload(down, {c.down_taps})},
                        result);
    const Floats out = device_.Floats(result);
    const auto expected = SnakeByDefinition(c, x, frequency, amplitude, up, down);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-5) << c.rows << " rows of " << c.width << ", element " << i;
    }
  }
}

// On every backend the fused op equals its definition bit for bit.
TEST_P(AudioOps, SnakeThenConvIsASnakeAndAConvolution) {
  struct Case {
    int64_t rows, in, out;
    ConvAxis time;
    Accumulate accumulate;
  };
  for (const Case& c : {Case{65, 24, 16, {.kernel = 3, .before = 1, .after = 1}, Accumulate::kNo},
                        Case{130, 8, 8, {.kernel = 11, .dilation = 5, .before = 25, .after = 25}, Accumulate::kAdd},
                        Case{7, 5, 3, {.kernel = 7, .before = 3, .after = 3}, Accumulate::kNo},
                        Case{70, 33, 2, {.kernel = 7, .dilation = 3, .before = 9, .after = 9}, Accumulate::kAdd},
                        Case{20, 8, 4, {.kernel = 1}, Accumulate::kNo},
                        Case{20, 8, 4, {.kernel = 3, .stride = 2, .before = 1, .after = 1}, Accumulate::kNo},
                        Case{20, 8, 4, {.kernel = 3, .before = 2, .padding = Padding::kReplicate}, Accumulate::kNo}}) {
    Floats matrix = Random(c.out * c.time.kernel * c.in, 6), bias = Random(c.out, 7);
    const Tensor bias_on_host(DType::kF32, {c.out}, bias.data());
    const Weight w = *device_.ops().PrepareWeight(Tensor(DType::kF32, {c.out, c.time.kernel, c.in}, matrix.data()),
                                                  &bias_on_host, DType::kF32);
    const Tensor taps = device_.Upload(Random(12, 8, 0.3f), {12});
    const AntiAliasedSnake snake{.frequency = device_.Upload(Random(c.in, 4, 3), {c.in}),
                                 .amplitude = device_.Upload(Random(c.in, 5), {c.in}),
                                 .up = taps,
                                 .down = taps};
    const Tensor x = device_.Upload(Random(c.rows * c.in, 1), {c.rows, c.in});
    const int64_t rows = ConvExtent(c.rows, c.time);
    const Floats before = Random(rows * c.out, 2);
    const Tensor fused = device_.Upload(before, {rows, c.out}), plain = device_.Upload(before, {rows, c.out});
    device_.ops().SnakeThenConv(x, snake, w, c.time, c.accumulate, device_.Output(DType::kF32, {c.rows, c.in}), fused);
    const Tensor bent = device_.Output(DType::kF32, {c.rows, c.in});
    device_.ops().Snake(x, snake, bent);
    device_.ops().Conv(bent.Reshape({1, c.rows, 1, c.in}), w, {.height = c.time, .accumulate = c.accumulate},
                       plain.Reshape({1, rows, 1, c.out}));
    EXPECT_EQ(device_.Floats(fused), device_.Floats(plain)) << c.rows << " rows, a kernel of " << c.time.kernel;
  }
}

TEST_P(AudioOps, SnakeIsExactForLargeArguments) {
  const Floats x = Random(400, 1, 30), frequency = {40, 100, 7, 1};
  const Tensor taps = device_.Upload({0.5f, 0.5f}, {2}), result = device_.Output(DType::kF32, {100, 4});
  device_.ops().Snake(device_.Upload(x, {100, 4}),
                      {.frequency = device_.Upload(frequency, {4}),
                       .amplitude = device_.Upload({1, 1, 1, 1}, {4}),
                       .up = taps,
                       .down = taps},
                      result);
  const Floats out = device_.Floats(result);
  for (int64_t i = 0; i < 400; ++i) {  // both doubled rows equal x, and so does their mean
    const float z = x[i] * frequency[i % 4];
    ASSERT_NEAR(out[i], x[i] + std::pow(std::sin(double{z}), 2), 2e-6 * (1 + std::abs(x[i]))) << i << ": " << z;
  }
}

TEST_P(AudioOps, PointwiseFunctionsAreWhatTheyAreCalled) {
  const Tensor x = device_.Upload({-kInfinity, -2, -0.5f, 0, 0.25f, 3, kInfinity}, {1, 7});
  const auto run = [&](const PointwiseFunction& f) {
    const Tensor out = device_.Output(DType::kF32, {1, 7});
    device_.ops().Pointwise(x, f, out);
    return device_.Floats(out);
  };
  EXPECT_THAT(run({.kind = PointwiseFunction::kLeakyRelu, .a = 0.1f}),
              ElementsAre(-kInfinity, -0.2f, -0.05f, 0, 0.25f, 3, kInfinity));
  EXPECT_THAT(run({.kind = PointwiseFunction::kClamp, .a = -1, .b = 1}), ElementsAre(-1, -1, -0.5f, 0, 0.25f, 1, 1));
  EXPECT_THAT(run({.kind = PointwiseFunction::kTanh}),
              ElementsAre(-1, FloatEq(std::tanh(-2.f)), FloatEq(std::tanh(-0.5f)), 0, FloatEq(std::tanh(0.25f)),
                          FloatEq(std::tanh(3.f)), 1));
  const auto floor = FloatEq(std::log(1e-5f));
  EXPECT_THAT(run({.kind = PointwiseFunction::kLogFloor, .a = 1e-5f}),
              ElementsAre(floor, floor, floor, floor, FloatEq(std::log(0.25f)), FloatEq(std::log(3.f)), kInfinity));
}

TEST_P(AudioOps, PointwiseWorksOnColumnsAndInPlaceAndKeepsNan) {
  const Tensor all = device_.Upload(Floats(24, kNan), {3, 8});
  for (const auto kind : {PointwiseFunction::kTanh, PointwiseFunction::kLogFloor}) {
    device_.ops().Pointwise(all, {.kind = kind, .a = 0.1f}, all);
    EXPECT_THAT(device_.Floats(all), testing::Each(testing::IsNan()));
  }
  for (const auto kind : {PointwiseFunction::kLeakyRelu, PointwiseFunction::kClamp}) {
    Floats before = Random(37 * 50, 6, 2);
    before[50 + 20] = kNan;
    const Tensor whole = device_.Upload(before, {37, 50}), columns = whole.Columns(3, 44);
    device_.ops().Pointwise(columns, {.kind = kind, .a = kind == PointwiseFunction::kClamp ? -1.f : 0.1f, .b = 1},
                            columns);
    const Floats x = device_.Floats(whole);
    for (int64_t i = 0; i < 37 * 50; ++i) {
      const float v = before[i], f = kind == PointwiseFunction::kClamp ? std::min(std::max(v, -1.f), 1.f)
                                     : v < 0                           ? 0.1f * v
                                                                       : v;
      if (i == 50 + 20) {
        EXPECT_TRUE(std::isnan(x[i]));
      } else {
        ASSERT_EQ(x[i], i % 50 >= 3 && i % 50 < 44 ? f : v) << i;
      }
    }
  }
}

TEST_P(AudioOps, MagnitudeJoinsTheTwoHalvesOfARow) {
  const Tensor out = device_.Output(DType::kF32, {2, 3});
  device_.ops().Magnitude(device_.Upload({3, 0, 1, 4, -5, 0, 6, 8, 0, -8, 15, 1}, {2, 6}), out);
  EXPECT_THAT(device_.Floats(out), ElementsAre(5, 5, 1, 10, 17, 1));
  device_.ops().Magnitude(device_.Upload({kNan, -kInfinity, 1e30f, 1, 0, 1e30f}, {1, 6}), out.Rows(0, 1));
  const Floats odd = device_.Floats(out);
  EXPECT_TRUE(std::isnan(odd[0]));
  EXPECT_EQ(odd[1], kInfinity);
  EXPECT_EQ(odd[2], kInfinity);  // its square overflows float32
}

TEST_P(AudioOps, SnakeKeepsWhatIsNotANumberUnderItsFilters) {
  const int64_t rows = 200, width = 12, bad = 100;
  Floats x = Random(rows * width, 1);
  x[bad * width + 3] = kNan;
  x[bad * width + 7] = kInfinity;
  const Tensor taps = device_.Upload(Floats(12, 0.1f), {12}), channel = device_.Upload(Floats(width, 1), {width});
  const Tensor result = device_.Output(DType::kF32, {rows, width});
  device_.ops().Snake(device_.Upload(x, {rows, width}),
                      {.frequency = channel, .amplitude = channel, .up = taps, .down = taps}, result);
  const Floats out = device_.Floats(result);
  for (int64_t i = 0; i < rows * width; ++i) {
    const int64_t row = i / width, c = i % width;
    const bool reached = (c == 3 || c == 7) && row >= bad - 5 && row <= bad + 5;
    ASSERT_EQ(std::isnan(out[i]), reached) << "row " << row << ", channel " << c;
  }
}

TEST_P(AudioOps, RepeatNearestRepeatsAlongEachAxis) {
  const Floats x = Random(2 * 3 * 4 * 5, 7);
  const Tensor on_device = device_.Upload(x, {2, 3, 4, 5}), sides = device_.Output(DType::kF32, {2, 6, 12, 5});
  device_.ops().RepeatNearest(on_device, {.height = 2, .width = 3}, sides);
  const Floats out = device_.Floats(sides);
  for (int64_t i = 0; i < 2 * 6 * 12 * 5; ++i) {
    const int64_t c = i % 5, w = i / 5 % 12, h = i / 60 % 6, f = i / 360;
    ASSERT_EQ(out[i], x[((f * 3 + h / 2) * 4 + w / 3) * 5 + c]) << i;
  }
  const Tensor longer = device_.Output(DType::kF32, {4, 3, 4, 5});
  device_.ops().RepeatNearest(on_device, {.time = 2}, longer);
  const Floats frames = device_.Floats(longer);
  EXPECT_EQ(Floats(frames.begin() + 60, frames.begin() + 120), Floats(x.begin(), x.begin() + 60));
}

// Capturing does not read the inputs' memory; each replay reads its current contents.
TEST_P(AudioOps, AllAreCapturedAndReplayed) {
  const Tensor taps = device_.Upload(Random(12, 8, 0.3f), {12}), channel = device_.Upload(Random(8, 9), {8});
  const AntiAliasedSnake snake{.frequency = channel, .amplitude = channel, .up = taps, .down = taps};
  const auto output = [&](const Shape& shape) { return device_.Output(DType::kF32, shape); };
  const Tensor x = output({60, 8}), a = output({60, 8}), b = output({60, 8}), m = output({60, 4}),
               r = output({1, 120, 1, 8});
  const auto body = [&] {
    device_.ops().Pointwise(x, {.kind = PointwiseFunction::kTanh}, a);
    device_.ops().Snake(a, snake, b);
    device_.ops().Magnitude(b, m);
    device_.ops().RepeatNearest(b.Reshape({1, 60, 1, 8}), {.height = 2}, r);
  };
  auto graph = device_.ops().stream().Capture(body);
  ASSERT_TRUE(graph.ok());
  for (int seed : {1, 2}) {
    const Floats values = Random(480, seed);
    device_.ops().stream().CopyFromHost(values.data(), x);  // the graph keeps the address
    (*graph)->Replay();
    const Floats magnitudes = device_.Floats(m), repeated = device_.Floats(r);
    body();
    EXPECT_EQ(magnitudes, device_.Floats(m));
    EXPECT_EQ(repeated, device_.Floats(r));
    EXPECT_FALSE(std::isnan(magnitudes[0]));
  }
}

}  // namespace
}  // namespace kinora
