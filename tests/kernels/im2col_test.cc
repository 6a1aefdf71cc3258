// The kernel that gathers the pixels under a convolution's taps, against its definition.
#include "kernels/im2col.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

constexpr Type kF32 = Type::kF32, kBf16 = Type::kBf16;

struct Form {
  std::string name;
  int64_t channels;
  Im2colAxis time, height, width;
  int64_t first = 0, count = 0;  // 0: all
  Type x = kBf16, columns = kBf16;
  int64_t gap = 0;  // after each row of x and columns
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

int64_t Source(const Im2colAxis& a, int64_t output, int64_t tap) {
  const int64_t at = output * a.stride - a.before + tap * a.dilation;
  if (at >= 0 && at < a.extent) return at;
  switch (a.edge) {
    case Edge::kZeros:
      return -1;
    case Edge::kReplicate:
      return at < 0 ? 0 : a.extent - 1;
    case Edge::kReflect:
      return at < 0 ? -at : 2 * (a.extent - 1) - at;
  }
  return -1;
}

class Im2colTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(Im2colTest, IsItsDefinition) {
  const Form& f = GetParam();
  const int64_t pixels = f.time.extent * f.height.extent * f.width.extent;
  const int64_t taps = int64_t{f.time.taps} * f.height.taps * f.width.taps, width = taps * f.channels;
  const int64_t count = f.count != 0 ? f.count : f.time.outputs * f.height.outputs * f.width.outputs;
  const Floats x = Values(pixels * f.channels, 1, f.x);
  Floats expected;
  for (int64_t i = 0; i < count * width; ++i) {
    const int64_t position = f.first + i / width, tap = i % width / f.channels;
    const int64_t w = Source(f.width, position % f.width.outputs, tap % f.width.taps);
    const int64_t h =
        Source(f.height, position / f.width.outputs % f.height.outputs, tap / f.width.taps % f.height.taps);
    const int64_t t = Source(f.time, position / f.width.outputs / f.height.outputs, tap / f.width.taps / f.height.taps);
    const bool inside = w >= 0 && h >= 0 && t >= 0;
    const int64_t pixel = (t * f.height.extent + h) * f.width.extent + w;
    expected.push_back(inside ? Rounded(x[pixel * f.channels + i % f.channels], f.columns) : 0.0f);
  }
  const Matrix dx(x, pixels, f.channels, f.gap, f.x, stream_);
  const Matrix columns(Floats(count * width, std::nanf("")), count, width, f.gap, f.columns, stream_);
  ASSERT_EQ(LaunchIm2col({.x = dx.rows(),
                          .columns = columns.rows(),
                          .channels = f.channels,
                          .time = f.time,
                          .height = f.height,
                          .width = f.width,
                          .first = f.first,
                          .count = count},
                         stream_),
            cudaSuccess);
  EXPECT_EQ(columns.Read(), expected);
  EXPECT_EQ(simt::Failure(), "");
}

constexpr Im2colAxis kOne{.extent = 1, .outputs = 1};
constexpr Im2colAxis kTime{.extent = 4, .outputs = 4, .taps = 3, .before = 2, .edge = Edge::kReplicate};
constexpr Im2colAxis kZeros{.extent = 5, .outputs = 5, .taps = 3, .before = 1};
constexpr Im2colAxis kReflected{.extent = 6, .outputs = 6, .taps = 3, .before = 1, .edge = Edge::kReflect};
constexpr Im2colAxis kStrided{.extent = 7, .outputs = 4, .taps = 3, .stride = 2, .before = 1};
constexpr Im2colAxis kDilated{.extent = 100, .outputs = 100, .taps = 7, .dilation = 5, .before = 15};
constexpr Im2colAxis kFarReflected{
    .extent = 4, .outputs = 4, .taps = 4, .dilation = 2, .before = 3, .edge = Edge::kReflect};
constexpr Im2colAxis kLater{.extent = 6, .outputs = 3, .before = -2, .edge = Edge::kReplicate};
const Form kForms[] = {
    {.name = "Video", .channels = 16, .time = kTime, .height = kZeros, .width = kReflected},
    {.name = "VideoInARun",
     .channels = 16,
     .time = kTime,
     .height = kZeros,
     .width = kReflected,
     .first = 37,
     .count = 41},
    {.name = "Strided", .channels = 8, .time = kOne, .height = kStrided, .width = kStrided},
    {.name = "DilatedLine", .channels = 5, .time = kOne, .height = kDilated, .width = kOne, .x = kF32, .columns = kF32},
    {.name = "FarReflection",
     .channels = 8,
     .time = kOne,
     .height = kFarReflected,
     .width = kZeros,
     .x = kF32,
     .columns = kF32},
    {.name = "OddChannels",
     .channels = 5,
     .time = kTime,
     .height = kReflected,
     .width = kZeros,
     .first = 61,
     .count = 50,
     .gap = 3},
    {.name = "OddGaps",
     .channels = 8,
     .time = kTime,
     .height = kReflected,
     .width = kZeros,
     .first = 9,
     .count = 32,
     .gap = 1},
    {.name = "Narrowed", .channels = 8, .time = kTime, .height = kZeros, .width = kZeros, .x = kF32, .gap = 8},
    {.name = "Widened",
     .channels = 3,
     .time = kTime,
     .height = kZeros,
     .width = kZeros,
     .first = 20,
     .count = 80,
     .columns = kF32},
    {.name = "PixelsWithTheirPadding",
     .channels = 24,
     .time = kLater,
     .height = {.extent = 3, .outputs = 5, .before = 1, .edge = Edge::kReflect},
     .width = {.extent = 2, .outputs = 5, .before = 1}},
    {.name = "OneValue", .channels = 1, .time = kOne, .height = kOne, .width = kOne},
};
INSTANTIATE_TEST_SUITE_P(All, Im2colTest, testing::ValuesIn(kForms), [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, Im2colRefusesWhatCannotBe) {
  const DeviceArray<float> x(64), columns(64);
  const Im2col good{.x = {.data = x.data(), .stride = 8},
                    .columns = {.data = columns.data(), .stride = 8},
                    .channels = 8,
                    .time = kOne,
                    .height = kOne,
                    .width = kOne,
                    .count = 1};
  Im2col empty = good, beyond = good, many = good, far = good;
  far.width.before = 1;
  far.width.edge = Edge::kReflect;
  empty.count = 0;
  beyond.first = 1;
  many.time.taps = 65536;
  for (const Im2col& wrong : {empty, beyond, many, far}) EXPECT_EQ(LaunchIm2col(wrong, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels
