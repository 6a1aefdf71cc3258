#include <gtest/gtest.h>

#include <vector>

#include "engine/ops/cpu_ops.h"

namespace kinora {
namespace {

TEST(NormalizeRange, CentresAndDividesByTheRangeOfAllElements) {
  for (int threads : {1, 2}) {
    const auto ops = CpuOps::Create(threads).value();
    std::vector<float> x = {1, 2, 3, 4, -5, 7}, out(6, -1.0f);
    const float mean = 2.0f, range = 12.0f;
    ops->NormalizeRange(Tensor(DType::kF32, {2, 3}, x.data()), 8.0f, 1e-6f, Tensor(DType::kF32, {2, 3}, out.data()));
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(out[i], 8 * (x[i] - mean) / range, 1e-5) << i;
  }
}

TEST(NormalizeRange, ReadsAndWritesBfloat16AndStridedViews) {
  const auto ops = CpuOps::Create(1).value();
  std::vector<bf16> x(8);
  for (int i = 0; i < 8; ++i)
    x[i] = bf16(static_cast<float>(i % 4 == 3 ? 1000 : i));  // the last column is outside the view
  std::vector<bf16> out(8, bf16(99.0f));
  ops->NormalizeRange(Tensor(DType::kBF16, {2, 4}, x.data()).Columns(0, 3), 6.0f, 0.0f,
                      Tensor(DType::kBF16, {2, 4}, out.data()).Columns(0, 3));
  EXPECT_EQ(static_cast<float>(out[0]), -3.0f);  // mean 3, range 6
  EXPECT_EQ(static_cast<float>(out[6]), 3.0f);
  EXPECT_EQ(static_cast<float>(out[3]), 99.0f);
}

TEST(NormalizeRange, AConstantTensorBecomesZeros) {
  const auto ops = CpuOps::Create(1).value();
  std::vector<float> x(12, 0.0f), out(12, 5.0f);
  ops->NormalizeRange(Tensor(DType::kF32, {3, 4}, x.data()), 8.0f, 1e-6f, Tensor(DType::kF32, {3, 4}, out.data()));
  for (float value : out) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace kinora
