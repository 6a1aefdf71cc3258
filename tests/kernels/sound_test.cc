// Audio kernels in all their forms, against definitions in double precision.
#include "kernels/sound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/snake.h"
#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

struct SnakeForm {
  std::string name;
  int64_t rows, width;
  int up_taps = 12, down_taps = 12;
  int64_t shift = 0;  // misalignment of x, in elements
};
void PrintTo(const SnakeForm& form, std::ostream* out) { *out << form.name; }

// Step by step: pad, insert zeros, filter, crop; activate; pad, filter, take every second value.
Floats DefineSnake(const SnakeForm& f, const Floats& x, const Floats& channels, const Floats& taps) {
  const auto at = [](int64_t i, int64_t n) { return std::clamp<int64_t>(i, 0, n - 1); };
  const int64_t pad = f.up_taps / 2 - 1, left = 2 * pad + (f.up_taps - 2) / 2;
  const int64_t before = f.down_taps / 2 - (f.down_taps % 2 == 0);
  Floats out(f.rows * f.width);
  for (int64_t c = 0; c < f.width; ++c) {
    std::vector<double> stretched(2 * (f.rows + 2 * pad) + f.up_taps), doubled(2 * f.rows);
    for (int64_t i = 0; i < f.rows + 2 * pad; ++i) {
      for (int64_t k = 0; k < f.up_taps; ++k)
        stretched[2 * i + k] += x[at(i - pad, f.rows) * f.width + c] * double{taps[k]};
    }
    for (int64_t j = 0; j < 2 * f.rows; ++j) {
      const double u = 2 * stretched[j + left], s = std::sin(u * channels[c]);
      doubled[j] = u + channels[f.width + c] * s * s;
    }
    for (int64_t i = 0; i < f.rows; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < f.down_taps; ++k)
        sum += doubled[at(2 * i - before + k, 2 * f.rows)] * taps[f.up_taps + k];
      out[i * f.width + c] = static_cast<float>(sum);
    }
  }
  return out;
}

Floats Scaled(Floats values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}
Floats Shifted(const Floats& values, int64_t by) {
  Floats shifted(by);
  shifted.insert(shifted.end(), values.begin(), values.end());
  return shifted;
}

// A signal, its activation parameters and filters, on the host and on the device.
struct SnakeInputs {
  SnakeInputs(const SnakeForm& form, cudaStream_t stream)
      : f(form), dx(Shifted(x, f.shift), stream), dchannels(channels, stream), dtaps(taps, stream) {}
  Snake To(float* out) const {
    return {.x = dx.data() + f.shift,
            .out = out,
            .rows = f.rows,
            .width = f.width,
            .frequency = dchannels.data(),
            .amplitude = dchannels.data() + f.width,
            .up = dtaps.data(),
            .down = dtaps.data() + f.up_taps,
            .up_taps = f.up_taps,
            .down_taps = f.down_taps};
  }
  const SnakeForm& f;
  const Floats x = Values(f.rows * f.width, 1), channels = Values(2 * f.width, 2);
  const Floats taps = Scaled(Values(f.up_taps + f.down_taps, 3), 0.3f);
  const DeviceArray<float> dx, dchannels, dtaps;
};

class SnakeTest : public OnAStream, public testing::WithParamInterface<SnakeForm> {};

TEST_P(SnakeTest, IsItsDefinition) {
  const SnakeForm& f = GetParam();
  const SnakeInputs in(f, stream_);
  const DeviceArray<float> out(Floats(f.rows * f.width, std::nanf("")), stream_);
  ASSERT_EQ(LaunchSnake(in.To(out.data()), stream_), cudaSuccess);
  ExpectNear(out.Read(stream_), DefineSnake(f, in.x, in.channels, in.taps), Type::kF32, "out");
  EXPECT_EQ(simt::Failure(), "");
}

const SnakeForm kSnakes[] = {
    {.name = "OneValue", .rows = 1, .width = 1},
    {.name = "Narrow", .rows = 2, .width = 8},
    {.name = "HalfATile", .rows = 63, .width = 16},
    {.name = "ATile", .rows = 64, .width = 32},
    {.name = "OneRowMore", .rows = 65, .width = 40},
    {.name = "SeveralTiles", .rows = 300, .width = 68},
    {.name = "OddWidth", .rows = 70, .width = 33},
    {.name = "NotAligned", .rows = 66, .width = 12, .shift = 1},
    {.name = "ShortFilters", .rows = 67, .width = 24, .up_taps = 2, .down_taps = 2},
    {.name = "UnlikeFilters", .rows = 130, .width = 4, .up_taps = 24, .down_taps = 13},
    {.name = "LongestFilters", .rows = 129, .width = 36, .up_taps = 64, .down_taps = 64},
    {.name = "FiltersLongerThanTheSignal", .rows = 3, .width = 9, .up_taps = 32, .down_taps = 63},
};
// The result of each signal, gathered under a convolution's taps in runs of rows. One run begins before the signal and
// one ends after it.
TEST_P(SnakeTest, UnderTapsEachIsWhereAConvolutionReadsIt) {
  const SnakeForm& f = GetParam();
  const SnakeInputs in(f, stream_);
  const DeviceArray<float> plain(Floats(f.rows * f.width), stream_);
  ASSERT_EQ(LaunchSnake(in.To(plain.data()), stream_), cudaSuccess);
  const Floats result = plain.Read(stream_);
  constexpr int64_t kTaps = 3, kDilation = 5, kGap = 4;
  const int64_t outputs = f.rows, stride = kTaps * f.width + kGap, run = std::max<int64_t>(1, outputs / 2 + 1);
  for (int64_t first = 0; first < outputs; first += run) {
    const int64_t count = std::min(run, outputs - first);
    const DeviceArray<float> under(Floats(count * stride, 7.0f), stream_);
    const SnakeTaps where{.taps = kTaps,
                          .dilation = kDilation,
                          .before = kDilation,
                          .first = first,
                          .count = count,
                          .row_stride = stride};
    ASSERT_EQ(LaunchSnakeUnderTaps(in.To(under.data()), where, stream_), cudaSuccess);
    const Floats got = under.Read(stream_);
    for (int64_t i = 0; i < count * stride; ++i) {
      const int64_t row = i / stride, tap = i % stride / f.width, c = i % stride % f.width;
      const int64_t from = first + row + (tap - 1) * kDilation;
      const float expected = tap >= kTaps ? 7.0f : from < 0 || from >= f.rows ? 0.0f : result[from * f.width + c];
      ASSERT_EQ(got[i], expected) << "row " << first + row << ", tap " << tap << ", channel " << c;
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

INSTANTIATE_TEST_SUITE_P(All, SnakeTest, testing::ValuesIn(kSnakes), [](const auto& info) { return info.param.name; });

struct CurveForm {
  std::string name;
  int64_t rows, width, gap = 0;
};
void PrintTo(const CurveForm& form, std::ostream* out) { *out << form.name; }

class PointwiseTest : public OnAStream, public testing::WithParamInterface<CurveForm> {};

double Defined(Curve curve, double v, double a, double b) {
  switch (curve) {
    case Curve::kLeakyRelu:
      return v < 0 ? v * a : v;
    case Curve::kTanh:
      return std::tanh(v);
    case Curve::kClamp:
      return std::isnan(v) ? v : std::min(std::max(v, a), b);
    case Curve::kLogFloor:
      return std::isnan(v) ? v : std::log(std::max(v, a));
  }
  return 0;
}

TEST_P(PointwiseTest, IsItsDefinitionInPlaceToo) {
  const auto& [name, rows, width, gap] = GetParam();
  Floats x = Values(rows * width, 1);
  x[0] = std::nanf("");
  x[width - 1] = INFINITY;
  x[rows * width - 1] = -INFINITY;
  for (const Curve curve : {Curve::kLeakyRelu, Curve::kTanh, Curve::kClamp, Curve::kLogFloor}) {
    const Matrix both(x, rows, width, gap, Type::kF32, stream_), other(x, rows, width, gap, Type::kF32, stream_);
    for (const Matrix* out : {&other, &both}) {
      ASSERT_EQ(LaunchPointwise({.rows = rows,
                                 .width = width,
                                 .x = both.rows(),
                                 .out = out->rows(),
                                 .curve = curve,
                                 .a = 0.25f,
                                 .b = 0.75f},
                                stream_),
                cudaSuccess);
      const Floats got = out->Read();
      for (int64_t i = 0; i < rows * width; ++i) {
        const auto expected = static_cast<float>(Defined(curve, x[i], 0.25, 0.75));
        if (std::isnan(expected) || std::isinf(expected)) {
          EXPECT_TRUE(std::isnan(expected) ? std::isnan(got[i]) : got[i] == expected) << i << ": " << got[i];
        } else {
          ASSERT_NEAR(got[i], expected, 1e-6f) << i;
        }
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

const CurveForm kCurves[] = {{.name = "Vectors", .rows = 40, .width = 64},
                             {.name = "VectorsApart", .rows = 5, .width = 24, .gap = 8},
                             {.name = "RowsThatAreVectorsTogether", .rows = 8, .width = 3},
                             {.name = "OddRowsApart", .rows = 7, .width = 5, .gap = 1},
                             {.name = "OneRow", .rows = 1, .width = 3}};
INSTANTIATE_TEST_SUITE_P(All, PointwiseTest, testing::ValuesIn(kCurves),
                         [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, MagnitudeJoinsTheHalvesOfARow) {
  const int64_t rows = 5, n = 129;
  const Floats x = Values(rows * 2 * n, 1);
  const Matrix dx(x, rows, 2 * n, 2, Type::kF32, stream_);
  const Matrix out(Floats(rows * n, std::nanf("")), rows, n, 1, Type::kF32, stream_);
  ASSERT_EQ(LaunchMagnitude(dx.rows(), out.rows(), rows, n, stream_), cudaSuccess);
  const Floats got = out.Read();
  for (int64_t i = 0; i < rows * n; ++i) {
    const float* const pair = &x[i / n * 2 * n + i % n];
    ASSERT_NEAR(got[i], std::hypot(double{pair[0]}, double{pair[n]}), 1e-6) << i;
  }
}

TEST_F(OnAStream, KernelsForSoundRefuseWhatCannotBe) {
  const DeviceArray<float> x(64), out(64);
  const Snake good{.x = x.data(), .out = out.data(), .rows = 2, .width = 2, .up_taps = 12, .down_taps = 12};
  Snake odd = good, longer = good, empty = good;
  odd.up_taps = 11;
  longer.down_taps = 65;
  empty.rows = 0;
  for (const Snake& wrong : {odd, longer, empty}) EXPECT_EQ(LaunchSnake(wrong, stream_), cudaErrorInvalidValue);
  const SnakeTaps under{.taps = 3, .before = 1, .first = 0, .count = 2, .row_stride = 6};
  SnakeTaps tight = under, none = under, early = under;
  tight.row_stride = 5, none.count = 0, early.first = -1;
  for (const SnakeTaps& wrong : {tight, none, early}) {
    EXPECT_EQ(LaunchSnakeUnderTaps(good, wrong, stream_), cudaErrorInvalidValue);
  }
  const Rows narrow{.data = x.data(), .stride = 8, .type = Type::kBf16}, wide{.data = out.data(), .stride = 8};
  EXPECT_EQ(LaunchPointwise({.rows = 1, .width = 8, .x = narrow, .out = wide}, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchMagnitude(wide, narrow, 1, 4, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchMagnitude(wide, wide, 0, 4, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels
