#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/backends.h"

namespace kinora {
namespace {

class NormalizeRange : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, NormalizeRange, testing::ValuesIn(Backends()), BackendName);

TEST_P(NormalizeRange, CentresAndDividesByTheRangeOfAllElements) {
  for (int threads : {1, 2}) {
    Device device(GetParam(), threads);
    const std::vector<float> x = {1, 2, 3, 4, -5, 7};
    const float mean = 2.0f, range = 12.0f;
    const Tensor out = device.Output(DType::kF32, {2, 3});
    device.ops().NormalizeRange(device.Upload(x, {2, 3}), 8.0f, 1e-6f, out);
    const std::vector<float> result = device.Floats(out);
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(result[i], 8 * (x[i] - mean) / range, 1e-5) << i;
  }
}

TEST_P(NormalizeRange, ReadsAndWritesBfloat16AndStridedViews) {
  Device device(GetParam(), 1);
  std::vector<bf16> x(8), out(8, bf16(99.0f));
  // The last column is outside the view.
  for (int i = 0; i < 8; ++i) x[i] = bf16(static_cast<float>(i % 4 == 3 ? 1000 : i));
  const Tensor result = device.Upload(Tensor(DType::kBF16, {2, 4}, out.data()));
  device.ops().NormalizeRange(device.Upload(Tensor(DType::kBF16, {2, 4}, x.data())).Columns(0, 3), 6.0f, 0.0f,
                              result.Columns(0, 3));
  const HostTensor host = device.Download(result);
  const auto at = [&](int i) { return static_cast<float>(host.tensor().data<bf16>()[i]); };
  EXPECT_EQ(at(0), -3.0f);  // mean 3, range 6
  EXPECT_EQ(at(6), 3.0f);
  EXPECT_EQ(at(3), 99.0f);
}

TEST_P(NormalizeRange, AConstantTensorBecomesZeros) {
  Device device(GetParam(), 1);
  const Tensor out = device.Output(DType::kF32, {3, 4});
  device.ops().NormalizeRange(device.Upload(std::vector<float>(12, 0.0f), {3, 4}), 8.0f, 1e-6f, out);
  for (float value : device.Floats(out)) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace kinora
