// Group norms and image filters on every backend, against their formulas in double precision; fused ops also against
// their definition on the same backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/ops/row_values.h"
#include "tests/testing/backends.h"

namespace kinora {
namespace {

struct Sizes {
  int64_t samples, rows, width, groups;  // rows per sample
};
constexpr Sizes kSizes[] = {{1, 1, 8, 1},     {1, 5, 32, 32},    {3, 7, 64, 32}, {2, 130, 24, 3},
                            {1, 4200, 64, 4}, {1, 70, 4096, 32}, {4, 3, 15, 5}};

// Statistics of one group of one sample.
struct Moments {
  double mean = 0, variance = 0;
};
std::vector<Moments> MomentsOf(const HostTensor& x, const Sizes& s) {
  std::vector<Moments> all;
  const int64_t columns = s.width / s.groups;
  for (int64_t i = 0; i < s.samples * s.groups; ++i) {
    const int64_t first = i / s.groups * s.rows, column = i % s.groups * columns;
    Moments m;
    const auto each = [&](const auto& f) {
      for (int64_t row = first; row < first + s.rows; ++row) {
        for (int64_t c = column; c < column + columns; ++c) f(At(x, row * s.width + c));
      }
    };
    const auto count = static_cast<double>(s.rows * columns);
    each([&](double v) { m.mean += v / count; });
    each([&](double v) { m.variance += (v - m.mean) * (v - m.mean) / count; });
    all.push_back(m);
  }
  return all;
}

class GroupNormOps : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, GroupNormOps, testing::ValuesIn(Backends()), BackendName);

TEST_P(GroupNormOps, CentreAndScaleEveryGroupOfEverySample) {
  for (const Sizes& s : kSizes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Device device(GetParam());
      const Shape shape{s.samples * s.rows, s.width};
      const HostTensor x = Waves(dtype, shape, 1), weight = Waves(DType::kF32, {s.width}, 2),
                       bias = Waves(DType::kF32, {s.width}, 3);
      const std::vector<Moments> moments = MomentsOf(x, s);
      const HostTensor expected = Expected(shape, [&](int64_t row, int64_t c) {
        const Moments& m = moments[row / s.rows * s.groups + c / (s.width / s.groups)];
        return (At(x, row * s.width + c) - m.mean) / std::sqrt(m.variance + 1e-5) * At(weight, c) + At(bias, c);
      });
      const Tensor out = device.Output(dtype, shape);
      device.ops().GroupNorm(device.Upload(x.tensor()),
                             {.weight = device.Upload(weight.tensor()),
                              .bias = device.Upload(bias.tensor()),
                              .groups = s.groups,
                              .samples = s.samples},
                             out);
      EXPECT_TRUE(Near(Floats(device.Download(out)).tensor(), expected.tensor(), Tolerance(dtype)))
          << s.samples << " samples of " << s.rows << " rows of " << s.width;
    }
  }
}

TEST_P(GroupNormOps, AMeanFarFromNothingCostsNoDigits) {
  Device device(GetParam());
  const Sizes s{1, 300, 64, 32};
  HostTensor x = Waves(DType::kF32, {s.rows, s.width}, 1);
  for (int64_t i = 0; i < x.tensor().elements(); ++i) x.f32()[i] += 512;
  const HostTensor ones = Expected({1, s.width}, [](int64_t, int64_t) { return 1; }),
                   none = Expected({1, s.width}, [](int64_t, int64_t) { return 0; });
  const std::vector<Moments> moments = MomentsOf(x, s);
  const HostTensor expected = Expected({s.rows, s.width}, [&](int64_t row, int64_t c) {
    return (At(x, row * s.width + c) - moments[c / 2].mean) / std::sqrt(moments[c / 2].variance + 1e-5);
  });
  const Tensor y = device.Upload(x.tensor());
  const GroupNormParams params{.weight = device.Upload(ones.tensor()).Reshape({s.width}),
                               .bias = device.Upload(none.tensor()).Reshape({s.width}),
                               .groups = s.groups};
  device.ops().GroupNorm(y, params, y);                                     // in place
  EXPECT_TRUE(Near(device.Download(y).tensor(), expected.tensor(), 3e-5));  // values of 512 ± 2 in float32
}

TEST_P(GroupNormOps, WithSiluAndAResidualTheyAreTheirDefinition) {
  for (const Sizes& s : kSizes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool added : {false, true}) {
        Device device(GetParam());
        const Shape shape{s.samples * s.rows, s.width};
        const Tensor x = device.Upload(Waves(dtype, shape, 1).tensor()),
                     residual = device.Upload(Waves(dtype, shape, 5).tensor()), fused = device.Output(dtype, shape),
                     defined = device.Output(dtype, shape);
        const GroupNormParams params{.weight = device.Upload(Waves(DType::kF32, {s.width}, 2).tensor()),
                                     .bias = device.Upload(Waves(DType::kF32, {s.width}, 3).tensor()),
                                     .groups = s.groups,
                                     .samples = s.samples};
        device.ops().GroupNormThenSilu(x, params, added ? &residual : nullptr, fused);
        device.ops().Ops::GroupNormThenSilu(x, params, added ? &residual : nullptr, defined);
        const HostTensor expected = Floats(device.Download(defined));
        EXPECT_TRUE(Near(Floats(device.Download(fused)).tensor(), expected.tensor(), 2 * Tolerance(dtype)));
      }
    }
  }
}

class BlurOps : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, BlurOps, testing::ValuesIn(Backends()), BackendName);

TEST_P(BlurOps, FilterEveryChannelAroundEveryFewPixels) {
  for (const int stride : {1, 2, 4}) {
    for (const int64_t taps : {1, 5}) {
      for (const int64_t channels : {1, 24, 37}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          Device device(GetParam());
          const Shape from{2, 5, 6, channels}, to{2, (5 + stride - 1) / stride, (6 + stride - 1) / stride, channels};
          const HostTensor x = Waves(dtype, from, 1), filter = Waves(DType::kF32, {taps, taps}, 2);
          HostTensor expected(DType::kF32, to);
          for (int64_t i = 0; i < to.elements(); ++i) {
            const int64_t c = i % channels, w = i / channels % to[2], h = i / channels / to[2] % to[1];
            double sum = 0;
            for (int64_t tap = 0; tap < taps * taps; ++tap) {
              const int64_t y = h * stride - taps / 2 + tap / taps, z = w * stride - taps / 2 + tap % taps;
              if (y < 0 || y >= 5 || z < 0 || z >= 6) continue;
              const int64_t frame = i / channels / to[2] / to[1];
              sum += At(x, ((frame * 5 + y) * 6 + z) * channels + c) * At(filter, tap);
            }
            expected.f32()[i] = static_cast<float>(sum);
          }
          const Tensor out = device.Output(dtype, to);
          device.ops().Blur(device.Upload(x.tensor()), device.Upload(filter.tensor()), stride, out);
          EXPECT_TRUE(Near(Floats(device.Download(out)).tensor(), expected.tensor(), Tolerance(dtype)))
              << channels << " channels, " << taps << " taps, every " << stride;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kinora
