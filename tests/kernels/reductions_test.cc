// Sums of squares and normalisation by a tensor's range, against their definitions in double precision.
#include "kernels/reductions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

class ReductionsTest : public OnAStream {};

struct Size {
  int64_t rows, width, gap;
};
constexpr Size kSizes[] = {{1, 1, 0}, {3, 8, 0}, {5, 37, 2}, {4, 4096, 8}, {40, 520, 0}, {2, 16384, 0}};

TEST_F(ReductionsTest, SumsOfSquaresAreThoseOfRows) {
  for (const auto& [rows, width, gap] : kSizes) {
    for (const Type type : {Type::kF32, Type::kBf16}) {
      const Floats x = Values(rows * width, 1, type);
      const Matrix dx(x, rows, width, gap, type, stream_);
      const DeviceArray<float> out(static_cast<size_t>(rows));
      ASSERT_EQ(LaunchSumOfSquares(dx.rows(), rows, width, out.data(), stream_), cudaSuccess);
      const Floats got = out.Read(stream_);
      for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t i = row * width; i < (row + 1) * width; ++i) sum += static_cast<double>(x[i]) * x[i];
        ASSERT_NEAR(got[row], sum, 2e-6 * sum) << row << " of " << rows << " by " << width;
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(ReductionsTest, TheRangeIsThatOfAllElements) {
  const DeviceArray<RangePart> parts(kRangeParts);
  for (const auto& [rows, width, gap] : kSizes) {
    for (const Type type : {Type::kF32, Type::kBf16}) {
      for (const Type to : {Type::kF32, Type::kBf16}) {
        Floats x = Values(rows * width, 1, type);
        for (float& v : x) v = Rounded(v + 3, type);  // a non-zero mean
        const Matrix dx(x, rows, width, gap, type, stream_);
        const Matrix out(Floats(x.size(), std::nanf("")), rows, width, gap, to, stream_);
        NormalizeRange args{.x = dx.rows(), .out = out.rows(), .rows = rows, .width = width, .scale = 8, .eps = 1e-6f};
        args.parts = parts.data();
        ASSERT_EQ(LaunchNormalizeRange(args, stream_), cudaSuccess);
        const auto [least, most] = std::minmax_element(x.begin(), x.end());
        const double mean = std::accumulate(x.begin(), x.end(), 0.0) / (static_cast<double>(x.size()) + 1e-6);
        const double factor = 8 / (static_cast<double>(*most) - *least + 1e-6);
        Floats expected(x.size());
        if (x.size() > 1) {
          for (size_t i = 0; i < x.size(); ++i) expected[i] = static_cast<float>((x[i] - mean) * factor);
          ExpectNear(out.Read(), expected, to, "out");
        }
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(ReductionsTest, OneNanIsSeenEverywhere) {
  const DeviceArray<RangePart> parts(kRangeParts);
  Floats x = Values(4096, 1);
  x[1234] = std::nanf("");
  const Matrix dx(x, 4, 1024, 0, Type::kF32, stream_);
  ASSERT_EQ(LaunchNormalizeRange({.x = dx.rows(), .out = dx.rows(), .rows = 4, .width = 1024, .parts = parts.data()},
                                 stream_),
            cudaSuccess);
  for (const float v : dx.Read()) ASSERT_TRUE(std::isnan(v));
}

TEST_F(ReductionsTest, RefuseWhatIsMissing) {
  const DeviceArray<float> memory(Floats(64, 1.0f), stream_);
  const DeviceArray<RangePart> parts(kRangeParts);
  const Rows rows{.data = memory.data(), .stride = 16};
  EXPECT_EQ(LaunchSumOfSquares(rows, 0, 16, memory.data(), stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchSumOfSquares(rows, int64_t{1} << 31, 16, memory.data(), stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchSumOfSquares(rows, 2, 0, memory.data(), stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchSumOfSquares(rows, 2, 16, nullptr, stream_), cudaErrorInvalidValue);
  NormalizeRange args{.x = rows, .out = rows, .rows = 2, .width = 16};
  EXPECT_EQ(LaunchNormalizeRange(args, stream_), cudaErrorInvalidValue) << "no room for the parts";
  args.parts = parts.data();
  args.rows = 0;
  EXPECT_EQ(LaunchNormalizeRange(args, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels
