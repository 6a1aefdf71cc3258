// The vocoder's ops against plain loops in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/ops/cpu_ops.h"

namespace kinora {
namespace {

using testing::ElementsAre;
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
Tensor View(Floats& values, const Shape& shape) { return Tensor(DType::kF32, shape, values.data()); }

class AudioOps : public testing::Test {
 protected:
  void SetUp() override {
    auto ops = CpuOps::Create(2);
    ASSERT_TRUE(ops.ok()) << ops.status();
    ops_ = *std::move(ops);
  }
  std::unique_ptr<CpuOps> ops_;
};

struct SnakeCase {
  int64_t rows, width, up_taps, down_taps;
};

// The definition, step by step as BigVGAN has it: pad, insert zeros, filter, crop; activate; pad, filter, take every
// second.
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

TEST_F(AudioOps, SnakeIsPadStretchFilterActivateFilterAndHalve) {
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
    Floats x = Random(c.rows * c.width, 1), up = Random(c.up_taps, 2, 0.3f), down = Random(c.down_taps, 3, 0.3f);
    Floats frequency = Random(c.width, 4, 3), amplitude = Random(c.width, 5), out(c.rows * c.width, kNan);
    ops_->Snake(View(x, {c.rows, c.width}),
                {.frequency = View(frequency, {c.width}),
                 .amplitude = View(amplitude, {c.width}),
                 .up = View(up, {c.up_taps}),
                 .down = View(down, {c.down_taps})},
                View(out, {c.rows, c.width}));
    ASSERT_TRUE(ops_->stream().Synchronize().ok());
    const auto expected = SnakeByDefinition(c, x, frequency, amplitude, up, down);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-5) << c.rows << " rows of " << c.width << ", element " << i;
    }
  }
}

TEST_F(AudioOps, SnakeIsExactForLargeArguments) {
  Floats x = Random(400, 1, 30), taps(2, 0.5f), frequency = {40, 100, 7, 1}, amplitude(4, 1.f), out(400, kNan);
  ops_->Snake(View(x, {100, 4}),
              {.frequency = View(frequency, {4}),
               .amplitude = View(amplitude, {4}),
               .up = View(taps, {2}),
               .down = View(taps, {2})},
              View(out, {100, 4}));
  for (int64_t i = 0; i < 400; ++i) {  // both doubled rows are x, so is their mean
    const float z = x[i] * frequency[i % 4];
    ASSERT_NEAR(out[i], x[i] + std::pow(std::sin(double{z}), 2), 2e-6 * (1 + std::abs(x[i]))) << i << ": " << z;
  }
}

TEST_F(AudioOps, PointwiseFunctionsAreWhatTheyAreCalled) {
  Floats x = {-kInfinity, -2, -0.5f, 0, 0.25f, 3, kInfinity}, out(7, kNan);
  const auto run = [&](const PointwiseFunction& f) {
    ops_->Pointwise(View(x, {1, 7}), f, View(out, {1, 7}));
    return out;
  };
  EXPECT_THAT(run({.kind = PointwiseFunction::kLeakyRelu, .a = 0.1f}),
              ElementsAre(-kInfinity, -0.2f, -0.05f, 0, 0.25f, 3, kInfinity));
  EXPECT_THAT(run({.kind = PointwiseFunction::kClamp, .a = -1, .b = 1}), ElementsAre(-1, -1, -0.5f, 0, 0.25f, 1, 1));
  EXPECT_THAT(run({.kind = PointwiseFunction::kTanh}),
              ElementsAre(-1, std::tanh(-2.f), std::tanh(-0.5f), 0, std::tanh(0.25f), std::tanh(3.f), 1));
  const float floor = std::log(1e-5f);
  EXPECT_THAT(run({.kind = PointwiseFunction::kLogFloor, .a = 1e-5f}),
              ElementsAre(floor, floor, floor, floor, std::log(0.25f), std::log(3.f), kInfinity));
}

TEST_F(AudioOps, PointwiseWorksOnColumnsAndInPlaceAndKeepsNan) {
  for (const auto kind : {PointwiseFunction::kLeakyRelu, PointwiseFunction::kClamp}) {
    Floats x = Random(37 * 50, 6, 2);
    x[50 + 20] = kNan;
    const Floats before = x;
    const Tensor columns = View(x, {37, 50}).Columns(3, 44);
    ops_->Pointwise(columns, {.kind = kind, .a = kind == PointwiseFunction::kClamp ? -1.f : 0.1f, .b = 1}, columns);
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

TEST_F(AudioOps, MagnitudeJoinsTheTwoHalvesOfARow) {
  Floats x = {3, 0, 1, 4, -5, 0, 6, 8, 0, -8, 15, 1}, out(6, kNan);
  ops_->Magnitude(View(x, {2, 6}), View(out, {2, 3}));
  EXPECT_THAT(out, ElementsAre(5, 5, 1, 10, 17, 1));
}

TEST_F(AudioOps, RepeatNearestRepeatsAlongEachAxis) {
  Floats x = Random(2 * 3 * 4 * 5, 7), out(2 * 6 * 12 * 5, kNan);
  ops_->RepeatNearest(View(x, {2, 3, 4, 5}), {.height = 2, .width = 3}, View(out, {2, 6, 12, 5}));
  for (int64_t i = 0; i < 2 * 6 * 12 * 5; ++i) {
    const int64_t c = i % 5, w = i / 5 % 12, h = i / 60 % 6, f = i / 360;
    ASSERT_EQ(out[i], x[((f * 3 + h / 2) * 4 + w / 3) * 5 + c]) << i;
  }
  Floats frames(4 * 3 * 4 * 5, kNan);
  ops_->RepeatNearest(View(x, {2, 3, 4, 5}), {.time = 2}, View(frames, {4, 3, 4, 5}));
  EXPECT_EQ(Floats(frames.begin() + 60, frames.begin() + 120), Floats(x.begin(), x.begin() + 60));
}

// Nothing reads the inputs' memory at capture, and a replay reads what it holds then.
TEST_F(AudioOps, AllAreCapturedAndReplayed) {
  Floats x(60 * 8, kNan), taps = Random(12, 8, 0.3f), channel = Random(8, 9), a(480, kNan), b(480, kNan), m(240, kNan),
                          r(960, kNan);
  const AntiAliasedSnake snake{.frequency = View(channel, {8}),
                               .amplitude = View(channel, {8}),
                               .up = View(taps, {12}),
                               .down = View(taps, {12})};
  const auto body = [&] {
    ops_->Pointwise(View(x, {60, 8}), {.kind = PointwiseFunction::kTanh}, View(a, {60, 8}));
    ops_->Snake(View(a, {60, 8}), snake, View(b, {60, 8}));
    ops_->Magnitude(View(b, {60, 8}), View(m, {60, 4}));
    ops_->RepeatNearest(View(b, {1, 60, 1, 8}), {.height = 2}, View(r, {1, 120, 1, 8}));
  };
  auto graph = ops_->stream().Capture(body);
  ASSERT_TRUE(graph.ok());
  for (int seed : {1, 2}) {
    const Floats values = Random(480, seed);
    std::copy(values.begin(), values.end(), x.begin());  // the graph holds the address
    (*graph)->Replay();
    const Floats magnitudes = m, repeated = r;
    body();
    EXPECT_EQ(magnitudes, m);
    EXPECT_EQ(repeated, r);
  }
}

}  // namespace
}  // namespace kinora
