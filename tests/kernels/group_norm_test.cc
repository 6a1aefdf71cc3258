// Group norms in all their forms, against the definition in double precision.
#include "kernels/group_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

struct Form {
  int64_t samples, rows, width, groups, gap;
  bool residual, silu;
};
constexpr Form kForms[] = {{1, 1, 1, 1, 0, false, false},   {2, 3, 64, 8, 0, true, true},
                           {2, 130, 48, 2, 8, true, false}, {1, 5, 11, 11, 2, false, true},
#ifndef __SANITIZE_THREAD__  // which supports 8,128 threads; a launch of this form has 32,768
                           {1, 5000, 16, 2, 0, true, true},
#endif
                           {2, 66, 96, 4, 3, false, false}};

class GroupNormTest : public OnAStream {};

Floats Define(const Form& f, const Floats& x, const Floats& residual, const Floats& weight, const Floats& bias) {
  Floats out(x.size());
  const int64_t columns = f.width / f.groups;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t c = i % f.width, sample = i / f.width / f.rows, group = c / columns;
    double mean = 0, variance = 0;
    const auto each = [&](const auto& use) {
      for (int64_t j = 0; j < f.rows * columns; ++j) {
        use(static_cast<double>(x[(sample * f.rows + j / columns) * f.width + group * columns + j % columns]));
      }
    };
    const auto count = static_cast<double>(f.rows * columns);
    if (c % columns == 0 || i == 0) {
      each([&](double v) { mean += v / count; });
      each([&](double v) { variance += (v - mean) * (v - mean) / count; });
      for (int64_t j = i; j < i + columns; ++j) {
        const int64_t at = j % f.width;
        double y = (x[j] - mean) / std::sqrt(variance + 1e-5) * weight[at] + bias[at];
        if (f.residual) y += residual[j];
        out[j] = static_cast<float>(f.silu ? y / (1 + std::exp(-y)) : y);
      }
    }
    i += columns - 1;
  }
  return out;
}

TEST_F(GroupNormTest, IsItsDefinition) {
  for (const Form& f : kForms) {
    for (const Type type : {Type::kF32, Type::kBf16}) {
      for (const Type to : {Type::kF32, Type::kBf16}) {
        const int64_t rows = f.samples * f.rows;
        if (rows > 1000 && type != to) continue;  // test long inputs once per type
        const Floats x = Values(rows * f.width, 1, type), residual = Values(rows * f.width, 2, type),
                     weight = Values(f.width, 3), bias = Values(f.width, 4);
        const Matrix dx(x, rows, f.width, f.gap, type, stream_), dr(residual, rows, f.width, f.gap, type, stream_);
        const Matrix out(Floats(x.size(), std::nanf("")), rows, f.width, f.gap, to, stream_);
        const DeviceArray<float> dw(weight, stream_), db(bias, stream_);
        const DeviceArray<GroupPart> parts(f.samples * f.groups * GroupNormParts(f.rows));
        ASSERT_EQ(LaunchGroupNorm({.x = dx.rows(),
                                   .residual = f.residual ? dr.rows() : Rows{},
                                   .out = out.rows(),
                                   .samples = f.samples,
                                   .rows = f.rows,
                                   .width = f.width,
                                   .groups = f.groups,
                                   .weight = dw.data(),
                                   .bias = db.data(),
                                   .silu = f.silu,
                                   .parts = parts.data()},
                                  stream_),
                  cudaSuccess);
        ExpectNear(out.Read(), Define(f, x, residual, weight, bias), to, "out");
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(GroupNormTest, RefusesWhatIsMissing) {
  const DeviceArray<float> memory(Floats(256, 1.0f), stream_), factors(Floats(16, 1.0f), stream_);
  const DeviceArray<GroupPart> parts(64);
  const Rows rows{.data = memory.data(), .stride = 16};
  const GroupNorm good{.x = rows,
                       .out = rows,
                       .rows = 2,
                       .width = 16,
                       .groups = 4,
                       .weight = factors.data(),
                       .bias = factors.data(),
                       .parts = parts.data()};
  EXPECT_EQ(LaunchGroupNorm(good, stream_), cudaSuccess);
  const auto refused = [&](const auto& change) {
    GroupNorm bad = good;
    change(bad);
    return LaunchGroupNorm(bad, stream_) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](GroupNorm& n) { n.groups = 3; })) << "groups that do not divide";
  EXPECT_TRUE(refused([](GroupNorm& n) { n.rows = 0; }));
  EXPECT_TRUE(refused([](GroupNorm& n) { n.samples = int64_t{1} << 31; }));
  EXPECT_TRUE(refused([](GroupNorm& n) { n.parts = nullptr; }));
  EXPECT_TRUE(refused([](GroupNorm& n) { n.bias = nullptr; }));
  EXPECT_TRUE(refused([&](GroupNorm& n) {
    n.residual = rows;
    n.residual.type = Type::kBf16;
  }));
}

}  // namespace
}  // namespace kinora::kernels
