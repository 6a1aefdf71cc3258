// Gathered rows and sinusoidal embeddings of time steps, against their definitions in double precision.
#include "kernels/lookups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

class LookupsTest : public OnAStream {};

TEST_F(LookupsTest, GatheredRowsAreTheTables) {
  const std::vector<int32_t> ids = {4, 0, 4, 2, 1, 3};
  const auto rows = static_cast<int64_t>(ids.size());
  const DeviceArray<int32_t> dids(ids, stream_);
  for (const auto& [width, gap] : {std::pair<int64_t, int64_t>{64, 0}, {2056, 8}, {37, 0}, {16, 3}}) {
    for (const Type from : {Type::kF32, Type::kBf16}) {
      for (const Type to : {Type::kF32, Type::kBf16}) {
        const Floats table = Values(5 * width, 1, from);
        const Matrix dtable(table, 5, width, gap, from, stream_);
        const Matrix out(Floats(rows * width, std::nanf("")), rows, width, gap, to, stream_);
        GatherRows args{.table = dtable.rows(), .out = out.rows(), .ids = dids.data(), .table_rows = 5, .rows = rows};
        args.width = width;
        args.factor = -0.75f;
        ASSERT_EQ(LaunchGatherRows(args, stream_), cudaSuccess);
        Floats expected;
        for (const int32_t id : ids) {
          for (int64_t c = 0; c < width; ++c) expected.push_back(table[id * width + c] * -0.75f);
        }
        ExpectNear(out.Read(), expected, to, "out");
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(LookupsTest, AnUnknownIdMakesItsRowNanAndReadsNothing) {
  for (const int64_t width : {8, 5}) {
    const Matrix table(Floats(3 * width, 2.0f), 3, width, 0, Type::kF32, stream_);
    const Matrix out(Floats(4 * width, 7.0f), 4, width, 0, Type::kF32, stream_);
    const DeviceArray<int32_t> ids({1, 3, -1, 1 << 30}, stream_);
    GatherRows args{.table = table.rows(), .out = out.rows(), .ids = ids.data(), .table_rows = 3, .rows = 4};
    args.width = width;
    ASSERT_EQ(LaunchGatherRows(args, stream_), cudaSuccess);
    const Floats got = out.Read();
    for (int64_t i = 0; i < 4 * width; ++i) {
      if (i < width) {
        EXPECT_EQ(got[i], 2.0f) << i;
      } else {
        EXPECT_TRUE(std::isnan(got[i])) << i;
      }
    }
  }
  EXPECT_EQ(simt::Failure(), "");
}

TEST_F(LookupsTest, SinusoidsKeepTheirDigitsAtLargeAngles) {
  const Floats t = {0.0f, 0.5f, 1.0f, 437.25f, 1000.0f, 16000.0f};
  for (const int64_t half : {128, 3}) {
    const int64_t width = 2 * half;
    const DeviceArray<float> dt(t, stream_);
    const Matrix out(Floats(6 * width, std::nanf("")), 6, width, 5, Type::kF32, stream_);
    ASSERT_EQ(
        LaunchTimestepEmbedding(dt.data(), static_cast<float*>(out.rows().data), out.rows().stride, 6, half, stream_),
        cudaSuccess);
    const Floats got = out.Read();
    for (int64_t i = 0; i < 6 * half; ++i) {
      const int64_t row = i / half, j = i % half;
      const float exponent = -9.210340371976184f * static_cast<float>(j) / static_cast<float>(half);
      const double angle = t[row] * static_cast<float>(std::exp(static_cast<double>(exponent)));
      ASSERT_NEAR(got[row * width + j], std::cos(angle), 1e-6) << row << " " << j;
      ASSERT_NEAR(got[row * width + half + j], std::sin(angle), 1e-6) << row << " " << j;
    }
  }
}

TEST_F(LookupsTest, RefuseWhatIsMissing) {
  const DeviceArray<float> memory(Floats(64, 1.0f), stream_);
  const DeviceArray<int32_t> ids({0, 0}, stream_);
  const Rows rows{.data = memory.data(), .stride = 16};
  const GatherRows good{.table = rows, .out = rows, .ids = ids.data(), .table_rows = 2, .rows = 2, .width = 16};
  GatherRows empty = good, narrow = good, nothing = good, unnamed = good;
  empty.table_rows = 0;
  narrow.width = 0;
  nothing.rows = 0;
  unnamed.ids = nullptr;
  for (const GatherRows& bad : {empty, narrow, nothing, unnamed}) {
    EXPECT_EQ(LaunchGatherRows(bad, stream_), cudaErrorInvalidValue);
  }
  EXPECT_EQ(LaunchTimestepEmbedding(memory.data(), memory.data(), 2, 0, 1, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchTimestepEmbedding(memory.data(), memory.data(), 2, 1, 0, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels
