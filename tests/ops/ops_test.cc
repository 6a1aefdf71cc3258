// The primitives of every backend against plain double-precision definitions.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "absl/types/span.h"
#include "tests/testing/backends.h"
#include "tests/testing/op_values.h"

namespace kinora {
namespace {

// Compares bit patterns: 0 differs from -0, and a NaN equals itself.
std::vector<uint32_t> Bits(absl::Span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), [](float v) { return std::bit_cast<uint32_t>(v); });
  return bits;
}

struct MatmulCase {
  int64_t rows, in, out;
};

class MatmulSizes : public testing::TestWithParam<std::tuple<TestedBackend, MatmulCase>> {};

TEST_P(MatmulSizes, EqualTheDefinitionInBothPrecisions) {
  const auto [rows, in, out] = std::get<1>(GetParam());
  Device device(std::get<0>(GetParam()));
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const HostTensor matrix = Random(DType::kF32, {out, in}, 1, 1.0f / std::sqrt(in)),
                     bias = Random(DType::kF32, {out}, 2);
    const HostTensor x = Random(dtype, {rows, in}, 3);
    HostTensor expected(DType::kF32, {rows, out});
    const Tensor y = device.Output(DType::kF32, {rows, out});
    const Weight w = *device.ops().PrepareWeight(matrix.tensor(), &bias.tensor(), dtype);
    device.ops().Matmul(device.Upload(x.tensor()), w, {}, y);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = bias.tensor().data<float>()[o];
        for (int64_t i = 0; i < in; ++i) {
          const double m = dtype == DType::kF32 ? At(matrix.tensor(), o, i)
                                                : static_cast<float>(bf16(matrix.tensor().data<float>()[o * in + i]));
          sum += At(x.tensor(), r, i) * m;
        }
        expected.f32()[r * out + o] = static_cast<float>(sum);
      }
    }
    EXPECT_TRUE(Near(device.Download(y).tensor(), expected.tensor(), 1e-6)) << DTypeName(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(On, MatmulSizes,
                         testing::Combine(testing::ValuesIn(Backends()),
                                          testing::Values(MatmulCase{1, 7, 5}, MatmulCase{17, 64, 96},
                                                          MatmulCase{5, 513, 33}, MatmulCase{300, 1030, 40},
                                                          MatmulCase{13, 2050, 1100})));

class Matmuls : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Matmuls, testing::ValuesIn(Backends()), BackendName);

TEST_P(Matmuls, ARowsBitsDoNotDependOnTheOtherRowsOrOnThreads) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Device one(GetParam(), 1), three(GetParam(), 3);
    const HostTensor matrix = Random(DType::kF32, {200, 700}, 1), x = Random(dtype, {400, 700}, 2);
    const auto run = [&](Device& device, const Tensor& rows) {
      const Weight w = *device.ops().PrepareWeight(matrix.tensor(), nullptr, dtype);
      const Tensor out = device.Output(DType::kF32, {rows.dim(0), 200});
      device.ops().Matmul(device.Upload(rows), w, {}, out);
      return device.Floats(out);
    };
    const std::vector<float> all = run(three, x.tensor()), part = run(one, x.tensor().Rows(37, 138));
    EXPECT_EQ(Bits(part), Bits({all.data() + 37 * 200, 101 * 200})) << DTypeName(dtype);
  }
}

TEST_P(Matmuls, ApplyActivationGateAndResidualInOnePass) {
  Device device(GetParam());
  const HostTensor matrix = Random(DType::kF32, {40, 24}, 1, 0.3f), x = Random(DType::kF32, {18, 24}, 2);
  const HostTensor table = Random(DType::kF32, {2, 3, 40}, 3), base = Random(DType::kF32, {3, 40}, 4);
  HostTensor row(DType::kI32, {9});
  for (int i = 0; i < 9; ++i) row.tensor().data<int32_t>()[i] = i % 2;
  const Gate gate{{device.Upload(table.tensor()), device.Upload(base.tensor()), device.Upload(row.tensor())}, 2};
  const Weight w = *device.ops().PrepareWeight(matrix.tensor(), nullptr, DType::kF32);
  const HostTensor residual = Random(DType::kF32, {18, 40}, 5);
  const Tensor on_device = device.Upload(x.tensor()), fused = device.Upload(residual.tensor()),
               steps = device.Upload(residual.tensor()), y = device.Output(DType::kF32, {18, 40});
  device.ops().Matmul(on_device, w,
                      {.activation = Activation::kGeluTanh, .accumulate = Accumulate::kGated, .gate = gate}, fused);
  device.ops().Matmul(on_device, w, {}, y);
  device.ops().Activate(y, Activation::kGeluTanh, y);
  device.ops().GatedAdd(y, gate, steps);
  EXPECT_TRUE(Near(device.Download(fused).tensor(), device.Download(steps).tensor(), 1e-6));
}

// One frame of two lines, with reflection padding along the width.
HostTensor ReferenceLines(const Tensor& x, const Tensor& matrix, int64_t kernel, int64_t out) {
  const int64_t width = x.dim(2), in = x.dim(3), before = kernel / 2;
  HostTensor expected(DType::kF32, {1, 2, width, out});
  for (int64_t at = 0; at < 2 * width; ++at) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t tap = 0; tap < kernel; ++tap) {
        int64_t column = std::abs(at % width - before + tap);
        if (column >= width) column = 2 * (width - 1) - column;
        const int64_t pixel = at / width * width + column;
        for (int64_t i = 0; i < in; ++i) sum += At(x, pixel, i) * At(matrix, o * kernel + tap, i);
      }
      expected.f32()[at * out + o] = static_cast<float>(sum);
    }
  }
  return expected;
}

class Convs : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Convs, testing::ValuesIn(Backends()), BackendName);

TEST_P(Convs, TapsThatShareTheirPixelsEqualTheDefinition) {
  Device device(GetParam(), 3);
  const int64_t out = 35;
  for (const auto& [width, kernel, in] :
       {std::tuple<int64_t, int, int64_t>{6, 3, 11}, {13, 2, 700}, {29, 5, 40}, {64, 3, 64}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const float scale = 1.0f / std::sqrt(static_cast<float>(kernel * in));
      const HostTensor x = Random(dtype, {1, 2, width, in}, 1), rounded = Random(dtype, {out, kernel, in}, 2, scale);
      HostTensor matrix(DType::kF32, {out, kernel, in});
      const Tensor y = device.Output(DType::kF32, {1, 2, width, out});
      for (int64_t i = 0; i < out * kernel * in; ++i) {
        matrix.f32()[i] = static_cast<float>(At(rounded.tensor(), i / in, i % in));
      }
      const Weight w = *device.ops().PrepareWeight(matrix.tensor(), nullptr, dtype);
      const ConvAxis axis{
          .kernel = kernel, .before = kernel / 2, .after = (kernel - 1) / 2, .padding = Padding::kReflect};
      device.ops().Conv(device.Upload(x.tensor()), w, {.width = axis}, y);
      const HostTensor expected = ReferenceLines(x.tensor(), matrix.tensor(), kernel, out);
      EXPECT_TRUE(Near(device.Download(y).tensor(), expected.tensor(), 1e-6)) << DTypeName(dtype) << " width " << width;
    }
  }
}

TEST_P(Convs, EqualTheDefinitionForEveryPadding) {
  Device device(GetParam());
  const int64_t frames = 3, height = 5, width = 6, in = 7, out = 9;
  const HostTensor x = Random(DType::kF32, {frames, height, width, in}, 1);
  const HostTensor matrix = Random(DType::kF32, {out, 27, in}, 2, 0.2f), bias = Random(DType::kF32, {out}, 3);
  const Weight w = *device.ops().PrepareWeight(matrix.tensor(), &bias.tensor(), DType::kF32);
  for (Padding space : {Padding::kZeros, Padding::kReflect, Padding::kReplicate}) {
    for (int stride : {1, 2}) {
      const ConvAxis side{.kernel = 3, .stride = stride, .before = 1, .after = 1, .padding = space};
      const ConvOptions options{
          .time = {.kernel = 3, .before = 2, .padding = Padding::kReplicate}, .height = side, .width = side};
      const int64_t oh = (height - 1) / stride + 1, ow = (width - 1) / stride + 1;
      HostTensor expected(DType::kF32, {frames, oh, ow, out});
      const Tensor y = device.Output(DType::kF32, {frames, oh, ow, out});
      device.ops().Conv(device.Upload(x.tensor()), w, options, y);
      const auto source = [](int64_t i, int64_t n, Padding p) -> int64_t {
        if (i >= 0 && i < n) return i;
        if (p == Padding::kZeros) return -1;
        if (p == Padding::kReplicate) return i < 0 ? 0 : n - 1;
        return i < 0 ? -i : 2 * (n - 1) - i;
      };
      for (int64_t f = 0; f < frames; ++f)
        for (int64_t h = 0; h < oh; ++h)
          for (int64_t u = 0; u < ow; ++u)
            for (int64_t o = 0; o < out; ++o) {
              double sum = bias.tensor().data<float>()[o];
              for (int t = 0; t < 27; ++t) {
                const int64_t sf = source(f + t / 9 - 2, frames, Padding::kReplicate);
                const int64_t sh = source(h * stride + t / 3 % 3 - 1, height, space),
                              sw = source(u * stride + t % 3 - 1, width, space);
                if (sh < 0 || sw < 0) continue;
                for (int64_t c = 0; c < in; ++c)
                  sum += At(x.tensor(), (sf * height + sh) * width + sw, c) *
                         matrix.tensor().data<float>()[(o * 27 + t) * in + c];
              }
              expected.f32()[((f * oh + h) * ow + u) * out + o] = static_cast<float>(sum);
            }
      EXPECT_TRUE(Near(device.Download(y).tensor(), expected.tensor(), 1e-6))
          << static_cast<int>(space) << " stride " << stride;
    }
  }
}

class Rows : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Rows, testing::ValuesIn(Backends()), BackendName);

TEST_P(Rows, FusedNormsEqualTheirDefinitions) {
  Device device(GetParam());
  Ops& ops = device.ops();
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor x = device.Upload(Random(dtype, {17, 70}, 1).tensor()),
                 table = device.Upload(Random(DType::kF32, {1, 4, 70}, 2).tensor()),
                 base = device.Upload(Random(DType::kF32, {4, 70}, 3).tensor());
    const ScaleShift m{{table, base, Tensor()}, 3, 1};
    const Tensor fused = device.Output(DType::kF32, {17, 70}), steps = device.Output(DType::kF32, {17, 70});
    ops.ModulatedRmsNorm(x, m, 1e-6f, fused);
    ops.Ops::ModulatedRmsNorm(x, m, 1e-6f, steps);
    EXPECT_TRUE(Near(device.Download(fused).tensor(), device.Download(steps).tensor(), 1e-6));
    ops.ModulatedLayerNorm(x, m, 1e-6f, fused);
    ops.Ops::ModulatedLayerNorm(x, m, 1e-6f, steps);
    EXPECT_TRUE(Near(device.Download(fused).tensor(), device.Download(steps).tensor(), 1e-6));
  }
}

TEST_P(Rows, NormRopeNormalizesEachGroupAndRotatesPairsOfAHead) {
  Device device(GetParam());
  const int64_t rows = 6, width = 48, d = 12;
  const HostTensor x = Random(DType::kF32, {rows, width}, 1);
  const HostTensor weight = Random(DType::kF32, {width}, 2), cos = Random(DType::kF32, {3, width / 2}, 3),
                   sin = Random(DType::kF32, {3, width / 2}, 4);
  HostTensor expected(DType::kF32, {rows, width});
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += At(x.tensor(), r, i) * At(x.tensor(), r, i);
    const auto normed = [&](int64_t i) {
      return At(x.tensor(), r, i) / std::sqrt(sum / width + 1e-6) * weight.tensor().data<float>()[i];
    };
    for (int64_t h = 0; h < width / d; ++h)
      for (int64_t j = 0; j < d / 2; ++j) {
        const double c = At(cos.tensor(), r % 3, h * d / 2 + j), s = At(sin.tensor(), r % 3, h * d / 2 + j);
        const double a = normed(h * d + j), b = normed(h * d + d / 2 + j);
        expected.f32()[r * width + h * d + j] = static_cast<float>(a * c - b * s);
        expected.f32()[r * width + h * d + d / 2 + j] = static_cast<float>(b * c + a * s);
      }
  }
  const Tensor out = device.Upload(x.tensor());
  device.ops().NormRope(out,
                        {.weight = device.Upload(weight.tensor()),
                         .group = width,
                         .head_width = d,
                         .rope = {device.Upload(cos.tensor()), device.Upload(sin.tensor())}},
                        nullptr);
  EXPECT_TRUE(Near(device.Download(out).tensor(), expected.tensor(), 1e-6));
}

}  // namespace
}  // namespace kinora
