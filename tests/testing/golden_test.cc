#include "tests/testing/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/tensor/cpu_stream.h"

namespace kinora {
namespace {

HostTensor Values(const Shape& shape, std::initializer_list<float> values) {
  HostTensor result(DType::kF32, shape);
  int64_t i = 0;
  for (float value : values) result.f32()[i++] = value;
  return result;
}

TEST(Golden, RelativeErrorIsTheNormOfTheDifferenceOverTheNormOfTheReference) {
  const HostTensor a = Values({2, 2}, {3, 0, 0, 5}), b = Values({4}, {3, 0, 0, 4});
  EXPECT_DOUBLE_EQ(RelativeError(a.tensor(), b.tensor()), 0.2);
  EXPECT_TRUE(Near(a.tensor(), b.tensor(), 0.21));
  EXPECT_FALSE(Near(a.tensor(), b.tensor(), 0.19));
}

TEST(Golden, NoToleranceAcceptsNanInfinityOrAnotherShape) {
  const HostTensor good = Values({2}, {1, 2});
  const HostTensor nan = Values({2}, {1, std::nanf("")});
  const HostTensor infinite = Values({2}, {1, std::numeric_limits<float>::infinity()});
  EXPECT_FALSE(Near(nan.tensor(), good.tensor(), 1e30));
  EXPECT_FALSE(Near(infinite.tensor(), good.tensor(), 1e30));
  EXPECT_FALSE(Near(infinite.tensor(), infinite.tensor(), 1e30));
  EXPECT_FALSE(Near(good.tensor(), Values({3}, {1, 2, 3}).tensor(), 1e30));
}

TEST(Golden, ChannelsMoveLast) {
  const HostTensor x = Values({1, 2, 1, 3, 1}, {1, 2, 3, 10, 20, 30});
  const HostTensor y = ToChannelsLast(x.tensor());
  EXPECT_EQ(y.tensor().shape(), Shape({1, 3, 1, 2}));
  EXPECT_EQ(RelativeError(y.tensor(), Values({6}, {1, 10, 2, 20, 3, 30}).tensor()), 0);
  EXPECT_EQ(ToChannelsLast(Values({1, 2, 3}, {1, 2, 3, 4, 5, 6}).tensor()).tensor().shape(), Shape({1, 1, 3, 2}));
}

TEST(Golden, TapsAreComparedInOrderAndTheFirstThatDivergesIsNamed) {
  Golden golden("video_decoder_2_3");
  const std::vector<std::string> names = golden.Names("tap.");
  ASSERT_GE(names.size(), 2u);
  TapCheck check(golden, 1e-5);
  CpuStream stream;
  EXPECT_FALSE(check.Result());  // nothing was compared yet
  check.taps().Record(stream, names[0].substr(4), golden.Get(names[0]));
  check.taps().Record(stream, "a name the golden lacks", golden.Get(names[0]));
  EXPECT_TRUE(check.Result());
  EXPECT_EQ(check.compared(), 1);
  const Tensor& expected = golden.Get(names[1]);
  HostTensor wrong(DType::kF32, expected.shape());
  for (int64_t i = 0; i < expected.elements(); ++i) wrong.f32()[i] = 1.01f * expected.data<float>()[i];
  check.taps().Record(stream, names[1].substr(4), wrong.tensor());
  const testing::AssertionResult result = check.Result();
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find(names[1].substr(4)), std::string::npos) << result.message();
}

TEST(Golden, TheCheckpointHoldsTheWeightsUnderTheirWholeKeys) {
  Golden golden("video_decoder_2_3");
  auto file = SafetensorsFile::Open(golden.WriteCheckpoint());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), golden.Names("weights.").size());
  EXPECT_NE((*file)->Find("vae.decoder.conv_in.conv.weight"), nullptr);
  EXPECT_EQ((*file)->metadata().at("config"), golden.metadata("config"));
}

}  // namespace
}  // namespace kinora
