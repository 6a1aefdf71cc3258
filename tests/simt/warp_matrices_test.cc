// The simulated matrix operations of a warp against the layouts in the PTX ISA: "Matrix Fragments for mma.m16n8k16 with
// floating point type" and "ldmatrix". The layouts are written here as the ISA writes them, apart from the simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "tests/simt/control.h"
#include "tests/simt/device_buffer.h"
#include "tests/simt/matrices.h"

namespace kinora::simt {
namespace {

using testing::HasSubstr;

class WarpMatrices : public testing::Test {
 protected:
  WarpMatrices() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~WarpMatrices() override {
    Restore();
    cudaStreamDestroy(stream_);
  }
  cudaStream_t stream_ = nullptr;
};

uint16_t Bits(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }
// Values that bf16 holds exactly.
float Draw(std::mt19937& random) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(std::uniform_real_distribution<float>(-2.0f, 2.0f)(random)) &
                              0xffff0000u);
}

TEST_F(WarpMatrices, ProductsOfTilesAreThoseOfTheMatrices) {
  std::mt19937 random(7);
  float a[16][16], b[16][8], c[16][8];
  for (auto& row : a) {
    for (float& v : row) v = Draw(random);
  }
  for (auto& row : b) {
    for (float& v : row) v = Draw(random);
  }
  for (auto& row : c) {
    for (float& v : row) v = Draw(random);
  }
  std::vector<LaneOperands> lanes(32);
  for (int lane = 0; lane < 32; ++lane) {
    LaneOperands& of = lanes[lane];
    const int group = lane >> 2, thread = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int column = thread * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      of.a[i / 2] |= unsigned{Bits(a[row][column])} << (16 * (i & 1));
    }
    for (int i = 0; i < 4; ++i) {
      const int row = thread * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      of.b[i / 2] |= unsigned{Bits(b[row][group])} << (16 * (i & 1));
    }
    for (int i = 0; i < 4; ++i) of.d[i] = c[i < 2 ? group : group + 8][thread * 2 + (i & 1)];
  }
  const DeviceArray<LaneOperands> operands(lanes, stream_);
  ASSERT_EQ(LaunchMultiply(operands.data(), stream_), cudaSuccess);
  const std::vector<LaneOperands> got = operands.Read(stream_);
  ASSERT_EQ(Failure(), "");
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double expected = c[row][column];
      for (int k = 0; k < 16; ++k) expected += static_cast<double>(a[row][k]) * b[k][column];
      const float found = got[row % 8 * 4 + column / 2].d[row / 8 * 2 + column % 2];
      EXPECT_NEAR(found, expected, 1e-5) << "row " << row << " column " << column;
    }
  }
}

TEST_F(WarpMatrices, LoadsDistributeRowsOrColumns) {
  std::vector<uint4> rows(32);
  uint16_t elements[4][8][8];
  for (int i = 0; i < 256; ++i) elements[i / 64][i / 8 % 8][i % 8] = static_cast<uint16_t>(i * 257 + 5);
  static_assert(sizeof elements == 32 * sizeof(uint4));
  std::memcpy(rows.data(), elements, sizeof elements);
  const DeviceArray<uint4> from(rows, stream_), to(32);
  for (const bool transposed : {false, true}) {
    ASSERT_EQ(LaunchLoadMatrices(from.data(), to.data(), transposed, stream_), cudaSuccess);
    const std::vector<uint4> words = to.Read(stream_);
    ASSERT_EQ(Failure(), "");
    for (int lane = 0; lane < 32; ++lane) {
      const unsigned got[4] = {words[lane].x, words[lane].y, words[lane].z, words[lane].w};
      for (int m = 0; m < 4; ++m) {
        for (int i = 0; i < 2; ++i) {  // lane 4 r + c: row r (column, if transposed), elements 2 c and 2 c + 1
          const int r = lane / 4, e = lane % 4 * 2 + i;
          EXPECT_EQ(got[m] >> (16 * i) & 0xffff, transposed ? elements[m][e][r] : elements[m][r][e])
              << "lane " << lane << " matrix " << m << " transposed " << transposed;
        }
      }
    }
  }
}

TEST_F(WarpMatrices, MistakesEndTheLaunch) {
  const DeviceBuffer x(std::vector<float>(32, 0.0f), stream_);
  LaunchMatrixFault(MatrixFault::kHalfAWarp, x.data(), stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_THAT(Failure(), HasSubstr("has returned"));
  Restore();
  LaunchMatrixFault(MatrixFault::kTwoOperations, x.data(), stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_THAT(Failure(), HasSubstr("lanes of one mask disagree"));
  EXPECT_THAT(Failure(), HasSubstr("is at Load"));
}

#if defined(__SANITIZE_ADDRESS__)  // with UndefinedBehaviorSanitizer
TEST_F(WarpMatrices, RowsAreAligned) {
  const DeviceBuffer x(std::vector<float>(32, 0.0f), stream_);
  const auto run = [&] {
    LaunchMatrixFault(MatrixFault::kMisaligned, x.data(), stream_);
    cudaStreamSynchronize(stream_);
    std::_Exit(0);
  };
  EXPECT_DEATH(run(), "misaligned address");
}
#endif

}  // namespace
}  // namespace kinora::simt
