// Depth-to-space and pixel repetition in all their forms, against the definition.
#include "kernels/upscale.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

constexpr Type kF32 = Type::kF32, kBf16 = Type::kBf16;

struct Form {
  std::string name;
  Upscale scale;
  int64_t channels;    // per part
  int64_t copies = 1;  // of the channels in out
  Type type = kBf16;
  bool drop_first = false, channels_outer = false, add = false;
  int64_t gap = 0;  // after each row of x and out
  bool repeat = false;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

Floats Define(const Form& f, const Floats& x, Floats out) {
  const Upscale& s = f.scale;
  const int parts = f.repeat ? 1 : s.parts();
  const int64_t width = f.channels * f.copies, high = s.height * s.height_factor, wide = s.width * s.width_factor;
  for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
    const int64_t c = i % width, w = i / width % wide, h = i / width / wide % high;
    const int64_t t = i / width / wide / high + (f.drop_first ? 1 : 0);
    const int64_t pixel = (t / s.time_factor * s.height + h / s.height_factor) * s.width + w / s.width_factor;
    int64_t part = (t % s.time_factor * s.height_factor + h % s.height_factor) * s.width_factor + w % s.width_factor;
    if (f.repeat) part = 0;
    const int64_t channel = f.channels_outer ? c % f.channels * parts + part : part * f.channels + c;
    const float value = x[pixel * parts * f.channels + channel];
    out[i] = Rounded(f.add ? value + out[i] : value, f.type);
  }
  return out;
}

class UpscaleTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(UpscaleTest, IsItsDefinition) {
  const Form& f = GetParam();
  const Upscale& s = f.scale;
  const int64_t pixels = s.frames * s.height * s.width, in = f.channels * (f.repeat ? 1 : s.parts());
  const int64_t line = s.height * s.height_factor * s.width * s.width_factor, width = f.channels * f.copies;
  const int64_t out_pixels = (s.frames * s.time_factor - (f.drop_first ? 1 : 0)) * line;
  const Floats x = Values(pixels * in, 1, f.type), before = Values(out_pixels * width, 2, f.type);
  const Matrix dx(x, pixels, in, f.gap, f.type, stream_);
  const Matrix out(f.add ? before : Floats(before.size(), std::nanf("")), out_pixels, width, f.gap, f.type, stream_);
  if (f.repeat) {
    ASSERT_EQ(
        LaunchRepeatNearest(
            {.scale = s, .x = dx.rows().data, .out = out.rows().data, .channels = f.channels, .type = f.type}, stream_),
        cudaSuccess);
  } else {
    ASSERT_EQ(LaunchDepthToSpace({.scale = s,
                                  .x = dx.rows(),
                                  .out = out.rows(),
                                  .channels = f.channels,
                                  .out_channels = width,
                                  .drop_first = f.drop_first,
                                  .channels_outer = f.channels_outer,
                                  .add = f.add},
                                 stream_),
              cudaSuccess);
  }
  EXPECT_EQ(out.Read(), Define(f, x, before));
  EXPECT_EQ(simt::Failure(), "");
}

constexpr Upscale kAll{.frames = 3, .height = 2, .width = 5, .time_factor = 2, .height_factor = 2, .width_factor = 2};
constexpr Upscale kTime{.frames = 3, .height = 2, .width = 3, .time_factor = 2};
constexpr Upscale kPatch{.frames = 2, .height = 3, .width = 4, .height_factor = 4, .width_factor = 4};
constexpr Upscale kOdd{.frames = 2, .height = 3, .width = 3, .time_factor = 1, .height_factor = 3, .width_factor = 2};
constexpr Upscale kOne{.frames = 1, .height = 1, .width = 1};
constexpr Upscale kLong{.frames = 1, .height = 2, .width = 300, .width_factor = 2};
const Form kForms[] = {
    {.name = "Runs", .scale = kAll, .channels = 16, .drop_first = true},
    {.name = "RunsAdded", .scale = kAll, .channels = 16, .drop_first = true, .add = true},
    {.name = "RunsApart", .scale = kAll, .channels = 8, .drop_first = true, .gap = 8},
    {.name = "OddRunsApart", .scale = kAll, .channels = 8, .add = true, .gap = 3},
    {.name = "FloatRuns", .scale = kTime, .channels = 12, .type = kF32},
    {.name = "FloatRunsAdded", .scale = kTime, .channels = 8, .type = kF32, .add = true},
    {.name = "Patches", .scale = kPatch, .channels = 3, .type = kF32},
    {.name = "NarrowPatches", .scale = kPatch, .channels = 3},
    {.name = "OddRuns", .scale = kOdd, .channels = 5},
    {.name = "OddRunsAdded", .scale = kOdd, .channels = 5, .type = kF32, .add = true},
    {.name = "LinesOfSeveralBlocks", .scale = kLong, .channels = 24},
    {.name = "OnePixel", .scale = kOne, .channels = 1},
    {.name = "Interleaved", .scale = kAll, .channels = 128, .copies = 4, .channels_outer = true},
    {.name = "InterleavedAdded",
     .scale = kAll,
     .channels = 16,
     .copies = 2,
     .drop_first = true,
     .channels_outer = true,
     .add = true},
    {.name = "InterleavedTime", .scale = kTime, .channels = 24, .channels_outer = true, .add = true},
    {.name = "InterleavedFloats", .scale = kOdd, .channels = 8, .type = kF32, .channels_outer = true, .add = true},
    {.name = "InterleavedOdd", .scale = kOdd, .channels = 5, .copies = 3, .channels_outer = true, .add = true},
    {.name = "InterleavedOddGap", .scale = kAll, .channels = 8, .copies = 2, .channels_outer = true, .gap = 5},
    {.name = "InterleavedMany", .scale = kPatch, .channels = 8, .type = kF32, .channels_outer = true},
    {.name = "InterleavedOne", .scale = kOne, .channels = 8, .channels_outer = true},
    {.name = "Repeated", .scale = kAll, .channels = 24, .repeat = true},
    {.name = "RepeatedOdd", .scale = kOdd, .channels = 5, .repeat = true},
    {.name = "RepeatedFloats", .scale = kOdd, .channels = 4, .type = kF32, .repeat = true},
    {.name = "RepeatedOddFloats", .scale = kPatch, .channels = 3, .type = kF32, .repeat = true},
    {.name = "RepeatedLines", .scale = kTime, .channels = 5, .type = kF32, .repeat = true},
};
INSTANTIATE_TEST_SUITE_P(All, UpscaleTest, testing::ValuesIn(kForms), [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, UpscalingRefusesWhatCannotBe) {
  const DeviceArray<float> x(64), out(64);
  const Rows from{.data = x.data(), .stride = 8}, to{.data = out.data(), .stride = 8};
  const DepthToSpace good{.scale = kOne, .x = from, .out = to, .channels = 8, .out_channels = 8};
  DepthToSpace wide = good, mixed = good, empty = good, odd = good, dropped = good;
  dropped.drop_first = true;
  wide.out_channels = 16;
  mixed.out.type = kBf16;
  empty.scale.frames = 0;
  odd.channels_outer = true;
  odd.out_channels = 12;
  for (const DepthToSpace& wrong : {wide, mixed, empty, odd, dropped})
    EXPECT_EQ(LaunchDepthToSpace(wrong, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchRepeatNearest({.scale = kOne, .x = x.data(), .out = out.data()}, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels
