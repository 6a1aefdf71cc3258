// Convolutions on every backend, against a definition in double precision: all paddings, strides and dilations, all
// combinations of types, and sizes that a device splits into runs.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "tests/testing/backends.h"

namespace kinora {
namespace {

void Set(const Tensor& t, int64_t i, float v) {
  if (t.dtype() == DType::kF32) {
    t.data<float>()[i] = v;
  } else {
    t.data<bf16>()[i] = bf16(v);
  }
}
double Value(const Tensor& t, int64_t i) {
  return t.dtype() == DType::kF32 ? t.data<float>()[i] : static_cast<double>(static_cast<float>(t.data<bf16>()[i]));
}

HostTensor Random(DType dtype, const Shape& shape, int seed, float scale = 1.0f) {
  HostTensor t(dtype, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  for (int64_t i = 0; i < shape.elements(); ++i) Set(t.tensor(), i, normal(random));
  return t;
}

struct ConvCase {
  std::string name;
  Shape x;
  int64_t out = 0;
  ConvAxis time{}, height{}, width{};
  DType x_type = DType::kF32, weight_type = DType::kF32, out_type = DType::kF32;
  bool bias = true, add = false;
  Activation activation = Activation::kNone;
  int64_t gap = 0;  // after each pixel of x and out
};
void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

int64_t Source(const ConvAxis& axis, int64_t extent, int64_t output, int64_t tap) {
  const int64_t at = output * axis.stride - axis.before + tap * axis.dilation;
  if (at >= 0 && at < extent) return at;
  if (axis.padding == Padding::kZeros) return -1;
  if (axis.padding == Padding::kReplicate) return at < 0 ? 0 : extent - 1;
  return at < 0 ? -at : 2 * (extent - 1) - at;
}

int64_t Extent(const ConvAxis& axis, int64_t extent) {
  return (extent + axis.before + axis.after - axis.dilation * (axis.kernel - 1) - 1) / axis.stride + 1;
}

// The sum over the taps of one output.
double Sum(const ConvCase& c, const Tensor& x, const Tensor& matrix, const Shape& y, int64_t position, int64_t o) {
  const int64_t w = position % y[2], h = position / y[2] % y[1], t = position / y[2] / y[1];
  const int64_t taps = c.time.kernel * c.height.kernel * c.width.kernel, in = c.x[3];
  double sum = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t sw = Source(c.width, c.x[2], w, tap % c.width.kernel);
    const int64_t sh = Source(c.height, c.x[1], h, tap / c.width.kernel % c.height.kernel);
    const int64_t st = Source(c.time, c.x[0], t, tap / c.width.kernel / c.height.kernel);
    if (sw < 0 || sh < 0 || st < 0) continue;
    const int64_t pixel = (st * c.x[1] + sh) * c.x[2] + sw;
    for (int64_t i = 0; i < in; ++i) sum += Value(x, pixel * in + i) * Value(matrix, (o * taps + tap) * in + i);
  }
  return sum;
}

double Activated(Activation activation, double v) {
  if (activation == Activation::kSilu) return v / (1 + std::exp(-v));
  if (activation == Activation::kGeluTanh)
    return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  return v;
}

// Uploads a tensor with pixels `gap` elements apart; the gaps keep Output's fill value.
Tensor Spread(Device& device, const Tensor& host, int64_t gap) {
  if (gap == 0) return device.Upload(host);
  Shape wide{host.dim(0), host.dim(1), host.dim(2), host.dim(3) + gap};
  const Tensor to = device.Output(host.dtype(), wide).Columns(0, host.dim(3));
  device.ops().stream().Copy(device.Upload(host), to);
  return to;
}

class ConvOps : public testing::TestWithParam<std::tuple<TestedBackend, ConvCase>> {};

TEST_P(ConvOps, EqualTheDefinition) {
  const ConvCase& c = std::get<1>(GetParam());
  Device device(std::get<0>(GetParam()));
  const int64_t taps = int64_t{1} * c.time.kernel * c.height.kernel * c.width.kernel;
  const Shape shape{Extent(c.time, c.x[0]), Extent(c.height, c.x[1]), Extent(c.width, c.x[2]), c.out};
  const float scale = 1 / std::sqrt(static_cast<float>(taps * c.x[3]));
  const HostTensor x = Random(c.x_type, c.x, 1), matrix = Random(c.weight_type, {c.out, taps, c.x[3]}, 2, scale);
  const HostTensor bias = Random(DType::kF32, {c.out}, 3), before = Random(c.out_type, shape, 4);
  const Weight w = *device.ops().PrepareWeight(matrix.tensor(), c.bias ? &bias.tensor() : nullptr, c.weight_type);
  const Tensor y = Spread(device, before.tensor(), c.gap);
  device.ops().Conv(Spread(device, x.tensor(), c.gap), w,
                    {.time = c.time,
                     .height = c.height,
                     .width = c.width,
                     .activation = c.activation,
                     .accumulate = c.add ? Accumulate::kAdd : Accumulate::kNo},
                    y);
  HostTensor expected(DType::kF32, shape);
  // The op computes products in the weight's type.
  HostTensor rounded = Random(c.x_type, c.x, 1);
  for (int64_t i = 0; c.weight_type == DType::kBF16 && i < c.x.elements(); ++i) {
    Set(rounded.tensor(), i, static_cast<float>(bf16(static_cast<float>(Value(x.tensor(), i)))));
  }
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t o = i % c.out;
    const double sum = Sum(c, rounded.tensor(), matrix.tensor(), shape, i / c.out, o);
    const double value = Activated(c.activation, sum + (c.bias ? bias.tensor().data<float>()[o] : 0));
    expected.f32()[i] = static_cast<float>(value + (c.add ? Value(before.tensor(), i) : 0));
  }
  const Tensor result = device.Output(c.out_type, shape);
  device.ops().stream().Copy(y, result);
  EXPECT_TRUE(Near(device.Download(result).tensor(), expected.tensor(), c.out_type == DType::kBF16 ? 4e-3 : 2e-6));
}

constexpr DType kF32 = DType::kF32, kBf16 = DType::kBF16;
constexpr ConvAxis kCausal{.kernel = 3, .before = 2, .padding = Padding::kReplicate};
constexpr ConvAxis kCentred{.kernel = 3, .before = 1, .after = 1, .padding = Padding::kReplicate};
constexpr ConvAxis kZeros{.kernel = 3, .before = 1, .after = 1};
constexpr ConvAxis kReflect{.kernel = 3, .before = 1, .after = 1, .padding = Padding::kReflect};
constexpr ConvAxis kUnevenReflect{.kernel = 3, .before = 2, .after = 1, .padding = Padding::kReflect};
constexpr ConvAxis kUneven{.kernel = 3, .before = 2};
constexpr ConvAxis kStride{.kernel = 3, .stride = 2, .before = 1, .after = 1};
constexpr ConvAxis kStridedCausal{.kernel = 3, .stride = 2, .before = 2, .padding = Padding::kReplicate};
constexpr ConvAxis kDilated{.kernel = 7, .dilation = 5, .before = 15, .after = 15};

// Float32 cases, and cases that tensor cores do not support.
const ConvCase kExact[] = {
    {.name = "Video", .x = {4, 5, 6, 16}, .out = 24, .time = kCausal, .height = kZeros, .width = kReflect},
    {.name = "OddChannels", .x = {3, 4, 5, 7}, .out = 9, .time = kCentred, .height = kReflect, .width = kReflect},
    {.name = "Line", .x = {1, 300, 1, 24}, .out = 16, .height = kDilated, .add = true},
    {.name = "LineOfOneChannel",
     .x = {1, 90, 1, 1},
     .out = 3,
     .height = {.kernel = 15, .before = 7, .after = 7, .padding = Padding::kReplicate},
     .bias = false,
     .add = true},
    {.name = "OnePixel", .x = {1, 1, 1, 8}, .out = 8, .time = kCausal, .height = kZeros, .width = kZeros},
    {.name = "OneTap", .x = {2, 3, 4, 24}, .out = 40, .add = true},
    {.name = "OneTapApart", .x = {2, 3, 4, 24}, .out = 40, .gap = 3},
    {.name = "OneTapStrided", .x = {3, 5, 7, 8}, .out = 8, .height = {.stride = 2}, .width = {.stride = 3}},
    {.name = "Strided", .x = {5, 7, 9, 8}, .out = 16, .time = kStridedCausal, .height = kStride, .width = kStride},
    {.name = "Silu", .x = {1, 6, 7, 8}, .out = 8, .height = kZeros, .width = kZeros, .activation = Activation::kSilu},
    {.name = "GeluAdded",
     .x = {1, 6, 7, 8},
     .out = 8,
     .height = kZeros,
     .add = true,
     .activation = Activation::kGeluTanh},
    {.name = "Bf16OddChannels",
     .x = {3, 4, 5, 12},
     .out = 20,
     .time = kCausal,
     .height = kReflect,
     .width = kZeros,
     .x_type = kBf16,
     .weight_type = kBf16,
     .out_type = kBf16,
     .add = true},
    {.name = "Bf16ToFloat",
     .x = {2, 4, 5, 16},
     .out = 48,
     .time = kCausal,
     .height = kReflect,
     .width = kReflect,
     .x_type = kBf16,
     .weight_type = kBf16},
    {.name = "FloatByBf16",
     .x = {2, 4, 5, 16},
     .out = 8,
     .height = kZeros,
     .width = kZeros,
     .weight_type = kBf16,
     .out_type = kBf16},
    {.name = "Bf16ByFloat",
     .x = {2, 4, 5, 16},
     .out = 8,
     .height = kZeros,
     .width = kZeros,
     .x_type = kBf16,
     .out_type = kBf16,
     .add = true},
    {.name = "FloatByBf16ToFloat", .x = {2, 4, 5, 9}, .out = 8, .height = kZeros, .weight_type = kBf16},
    {.name = "PixelsApart", .x = {2, 4, 5, 12}, .out = 8, .time = kCausal, .height = kZeros, .add = true, .gap = 3},
    // Long lines, so that taps share tiles of pixels.
    {.name = "LongLines", .x = {2, 3, 37, 48}, .out = 40, .time = kCausal, .height = kZeros, .width = kReflect},
    {.name = "DeepLines", .x = {1, 2, 20, 1100}, .out = 17, .height = kZeros, .width = kZeros},
    {.name = "LongLinesOfOddChannels",
     .x = {2, 3, 37, 19},
     .out = 20,
     .height = kZeros,
     .width = kReflect,
     .x_type = kBf16,
     .weight_type = kBf16},
    {.name = "LongLinesOfFloats", .x = {2, 3, 37, 19}, .out = 20, .width = kZeros, .weight_type = kBf16},
    {.name = "WideKernel", .x = {1, 2, 50, 6}, .out = 33, .width = {.kernel = 12, .before = 5, .after = 6}},
};

ConvCase Bf16ToFloat(ConvCase c) {
  c.x_type = c.weight_type = kBf16;
  return c;
}
ConvCase Bf16(ConvCase c) {
  c.x_type = c.weight_type = c.out_type = kBf16;
  return c;
}
// Cases that tensor cores support.
const ConvCase kTensorCores[] = {
    Bf16({.name = "Zeros", .x = {3, 6, 5, 16}, .out = 24, .time = kZeros, .height = kZeros, .width = kZeros}),
    Bf16({.name = "Uneven", .x = {3, 6, 5, 8}, .out = 8, .time = kUneven, .height = kUneven, .width = kUneven}),
    Bf16({.name = "Causal",
          .x = {6, 4, 5, 16},
          .out = 16,
          .time = kCausal,
          .height = kZeros,
          .width = kZeros,
          .add = true}),
    Bf16({.name = "Centred", .x = {5, 4, 5, 16}, .out = 8, .time = kCentred, .height = kZeros, .width = kZeros}),
    Bf16({.name = "CausalOneFrame", .x = {1, 4, 5, 8}, .out = 8, .time = kCausal, .height = kZeros, .width = kZeros}),
    Bf16({.name = "CentredOneFrame", .x = {1, 4, 5, 8}, .out = 8, .time = kCentred, .height = kZeros, .width = kZeros}),
    Bf16({.name = "CausalTwoFrames", .x = {2, 4, 5, 8}, .out = 8, .time = kCausal, .height = kZeros, .width = kZeros}),
    Bf16({.name = "CausalStrided",
          .x = {7, 6, 5, 8},
          .out = 8,
          .time = kStridedCausal,
          .height = kStride,
          .width = kStride}),
    Bf16({.name = "Reflected",
          .x = {4, 5, 6, 16},
          .out = 24,
          .time = kCausal,
          .height = kReflect,
          .width = kReflect,
          .add = true}),
    Bf16({.name = "ReflectedTime", .x = {4, 5, 6, 8}, .out = 8, .time = kReflect, .height = kZeros, .width = kReflect}),
    Bf16({.name = "UnevenReflection", .x = {2, 5, 6, 8}, .out = 8, .height = kUnevenReflect, .width = kUnevenReflect}),
    Bf16({.name = "ZerosBesideReflection",
          .x = {3, 5, 6, 8},
          .out = 8,
          .time = kZeros,
          .height = kZeros,
          .width = kReflect}),
    Bf16({.name = "Silu",
          .x = {1, 6, 5, 8},
          .out = 16,
          .height = kZeros,
          .width = kZeros,
          .activation = Activation::kSilu}),
    Bf16({.name = "Gelu",
          .x = {1, 6, 5, 8},
          .out = 16,
          .height = kZeros,
          .width = kZeros,
          .activation = Activation::kGeluTanh}),
    Bf16ToFloat(
        {.name = "FloatResult", .x = {4, 5, 6, 16}, .out = 48, .time = kCausal, .height = kZeros, .width = kZeros}),
    Bf16ToFloat({.name = "FloatResultSiluAdded",
                 .x = {1, 6, 5, 8},
                 .out = 16,
                 .height = kZeros,
                 .width = kZeros,
                 .bias = false,
                 .add = true,
                 .activation = Activation::kSilu,
                 .gap = 8}),
    Bf16({.name = "WithoutBias",
          .x = {1, 6, 5, 8},
          .out = 16,
          .height = kZeros,
          .width = kZeros,
          .bias = false,
          .add = true}),
    Bf16({.name = "LinesOfATile",
          .x = {2, 3, 16, 64},
          .out = 32,
          .time = kCausal,
          .height = kZeros,
          .width = kReflect,
          .add = true}),
    Bf16({.name = "LongLines", .x = {2, 3, 37, 48}, .out = 40, .time = kCausal, .height = kZeros, .width = kReflect}),
    Bf16({.name = "ThreeTilesALine", .x = {1, 2, 96, 32}, .out = 72, .height = kReflect, .width = kZeros}),
    Bf16({.name = "DeepLines", .x = {1, 4, 37, 1104}, .out = 8, .height = kZeros, .width = kZeros}),
    Bf16({.name = "ManyLines", .x = {3, 10, 37, 128}, .out = 8, .time = kCausal, .height = kZeros, .width = kReflect}),
    Bf16({.name = "WideKernel", .x = {1, 2, 50, 8}, .out = 40, .width = {.kernel = 12, .before = 5, .after = 6}}),
    Bf16({.name = "DilatedLine", .x = {1, 80, 1, 16}, .out = 8, .height = kDilated}),
    Bf16({.name = "PixelsApart",
          .x = {3, 4, 5, 16},
          .out = 8,
          .time = kCausal,
          .height = kZeros,
          .width = kZeros,
          .gap = 8}),
};

std::string CaseName(const testing::TestParamInfo<std::tuple<TestedBackend, ConvCase>>& info) {
  return std::get<1>(info.param).name + "_" + std::get<0>(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(Exact, ConvOps, testing::Combine(testing::ValuesIn(Backends()), testing::ValuesIn(kExact)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(TensorCores, ConvOps,
                         testing::Combine(testing::ValuesIn(Backends()), testing::ValuesIn(kTensorCores)), CaseName);

class LongConvs : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, LongConvs, testing::ValuesIn(Backends()), BackendName);

// 70,000 positions of 32 taps by 64 channels are more pixels than a device unfolds at a time. The last tap is the
// identity, so each output equals the pixel at its position.
TEST_P(LongConvs, PositionsBeyondOneRunGoOnWhereItEnded) {
  Device device(GetParam());
  const int64_t rows = 70000, in = 64, out = 2, taps = 32;
  HostTensor x(DType::kBF16, {1, rows, 1, in}), matrix(DType::kBF16, {out, taps, in});
  for (int64_t i = 0; i < rows * in; ++i) Set(x.tensor(), i, static_cast<float>(i / in % 251 + i % 3));
  for (int64_t i = 0; i < out * taps * in; ++i) Set(matrix.tensor(), i, 0);
  for (int64_t o = 0; o < out; ++o) Set(matrix.tensor(), (o * taps + taps - 1) * in + 7 * o, 1);
  const Weight w = *device.ops().PrepareWeight(matrix.tensor(), nullptr, DType::kBF16);
  const Tensor y = device.Output(DType::kF32, {1, rows, 1, out});
  device.ops().Conv(device.Upload(x.tensor()), w, {.height = {.kernel = taps, .before = taps - 1}}, y);
  const std::vector<float> got = device.Floats(y);
  for (int64_t i = 0; i < rows * out; ++i) {
    ASSERT_EQ(got[i], Value(x.tensor(), i / out * in + i % out * 7)) << i;
  }
}

}  // namespace
}  // namespace kinora
