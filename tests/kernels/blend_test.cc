// Cases that the op tests (tests/ops/blend_ops_test.cc) do not cover: arguments that the launchers reject, and launches
// of many blocks.
#include "kernels/blend.h"

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

TEST_F(OnAStream, BlendingRefusesWhatCannotBe) {
  const DeviceArray<float> values(64), sums(64), weights(64);
  const DeviceArray<uint8_t> bytes(64);
  const DeviceArray<int32_t> bad(1);
  const PixelWeights all{.frames = weights.data(), .rows = weights.data(), .columns = weights.data()};
  const AddTile good{.tile = values.data(),
                     .sums = sums.data(),
                     .weights = all,
                     .frames = 1,
                     .height = 2,
                     .line = 8,
                     .sums_frame = 32,
                     .sums_line = 16};
  EXPECT_EQ(LaunchAddTile(good, stream_), cudaSuccess);
  const auto refused = [&](auto change) {
    AddTile wrong = good;
    change(wrong);
    return LaunchAddTile(wrong, stream_) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](AddTile& a) { a.frames = 0; }));
  EXPECT_TRUE(refused([](AddTile& a) { a.line = 0; }));
  EXPECT_TRUE(refused([](AddTile& a) { a.tile = nullptr; }));
  EXPECT_TRUE(refused([](AddTile& a) { a.weights.rows = nullptr; }));
  EXPECT_TRUE(refused([](AddTile& a) { a.frames = a.height = int64_t{1} << 20; }));

  const FinishRgb8 whole{
      .sums = sums.data(), .rgb8 = bytes.data(), .first_bad = bad.data(), .frames = 1, .height = 1, .line = 16};
  EXPECT_EQ(LaunchFinishRgb8(whole, stream_), cudaSuccess);
  const auto finish_refused = [&](auto change) {
    FinishRgb8 wrong = whole;
    change(wrong);
    return LaunchFinishRgb8(wrong, stream_) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(finish_refused([](FinishRgb8& a) { a.height = 0; }));
  EXPECT_TRUE(finish_refused([](FinishRgb8& a) { a.rgb8 = nullptr; }));
  EXPECT_TRUE(finish_refused([](FinishRgb8& a) { a.first_bad = nullptr; }));
  EXPECT_TRUE(finish_refused([&](FinishRgb8& a) { a.weights.frames = weights.data(); }));
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(simt::Failure(), "");
}

// Each thread handles part of a frame: runs of 16 values, in lines that several blocks share.
TEST_F(OnAStream, EveryFrameOfManyBlocksIsFinished) {
  constexpr int64_t kFrames = 5, kHeight = 7, kLine = 240;
  Floats values(kFrames * kHeight * kLine);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 256) / 127.5f - 1;
  values[kHeight * kLine * 2 + 17] = std::nanf("");
  const DeviceArray<float> sums(values, stream_);
  const DeviceArray<uint8_t> bytes(values.size());
  const DeviceArray<int32_t> bad({1000}, stream_);
  ASSERT_EQ(LaunchFinishRgb8({.sums = sums.data(),
                              .rgb8 = bytes.data(),
                              .first_bad = bad.data(),
                              .first_frame = 100,
                              .frames = kFrames,
                              .height = kHeight,
                              .line = kLine},
                             stream_),
            cudaSuccess);
  const std::vector<uint8_t> got = bytes.Read(stream_);
  for (size_t i = 0; i < values.size(); ++i) {
    const int expected = std::isnan(values[i]) ? 0 : static_cast<int>((values[i] + 1) * 0.5f * 255.0f);
    ASSERT_EQ(got[i], expected) << i;
  }
  EXPECT_EQ(bad.Read(stream_)[0], 102);
  EXPECT_EQ(simt::Failure(), "");
}

}  // namespace
}  // namespace kinora::kernels
