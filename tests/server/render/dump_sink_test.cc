#include "server/render/dump_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <utility>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr ClipInfo kClip = {.width = 4,
                            .height = 2,
                            .num_frames = 3,
                            .frame_rate = 24,
                            .audio_sample_rate = 8000,
                            .audio_channels = 2,
                            .audio_samples = 5};

class DumpSinkTest : public testing::Test {
 protected:
  ~DumpSinkTest() override { unlink(path_.c_str()); }

  template <typename T>
  std::vector<T> Read(const std::string& name, const Shape& shape, DType dtype) {
    auto file = SafetensorsFile::Open(path_);
    EXPECT_THAT(file, IsOk());
    const TensorInfo* tensor = (*file)->Find(name);
    if (tensor == nullptr) {
      ADD_FAILURE() << name << " is missing";
      return {};
    }
    EXPECT_EQ(tensor->shape, shape);
    EXPECT_EQ(tensor->dtype, dtype);
    std::vector<T> values(shape.elements());
    EXPECT_THAT((*file)->Read(*tensor, 0, tensor->bytes, values.data()), IsOk());
    return values;
  }

  const std::string path_ = testing::TempDir() + "dump_sink_" + std::to_string(getpid()) + ".safetensors";
  std::vector<float> frames_ = std::vector<float>(3 * 2 * 4 * 3);
  std::vector<float> waveform_ = {0, 0.1f, 0.2f, 0.3f, 0.4f, 1, 1.1f, 1.2f, 1.3f, 1.4f};
  std::vector<int64_t> ids_ = {2, 10, 7};
};

TEST_F(DumpSinkTest, HoldsIntermediatesFramesAndWaveform) {
  std::iota(frames_.begin(), frames_.end(), 0.25f);
  DumpSink sink(path_);
  const Tensor frames(DType::kF32, {3, 2, 4, 3}, frames_.data());
  ASSERT_THAT(sink.Intermediate("input_ids", Tensor(DType::kI64, {3}, ids_.data())), IsOk());
  ASSERT_THAT(sink.Begin(kClip), IsOk());
  ASSERT_THAT(sink.FloatFrames(0, frames.Rows(0, 2)), IsOk());
  ASSERT_THAT(sink.FloatFrames(2, frames.Rows(2, 3)), IsOk());
  ASSERT_THAT(sink.Audio(Tensor(DType::kF32, {2, 5}, waveform_.data())), IsOk());
  ASSERT_THAT(sink.End(), IsOk());
  EXPECT_EQ(Read<float>("frames", {3, 2, 4, 3}, DType::kF32), frames_);
  EXPECT_EQ(Read<float>("waveform", {2, 5}, DType::kF32), waveform_);
  EXPECT_EQ(Read<int64_t>("input_ids", {3}, DType::kI64), ids_);
}

TEST_F(DumpSinkTest, AClipThatBreaksOffLeavesNoFile) {
  {
    DumpSink sink(path_);
    ASSERT_THAT(sink.Begin(kClip), IsOk());
    EXPECT_FALSE(sink.End().ok());  // no frame arrived
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

struct CountingSink : ClipSink {
  explicit CountingSink(int& calls, absl::Status end = absl::OkStatus()) : calls(calls), end(std::move(end)) {}
  absl::Status Begin(const ClipInfo&) override { return ++calls, absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return ++calls, absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return ++calls, absl::OkStatus(); }
  absl::Status Failure() const override { return end; }
  absl::Status End() override { return ++calls, end; }
  int& calls;
  absl::Status end;
};

TEST(TeeSinkTest, EverySinkGetsTheClip) {
  int first = 0, second = 0;
  TeeSink tee;
  tee.Add(std::make_unique<CountingSink>(first));
  tee.Add(std::make_unique<CountingSink>(second));
  const Tensor none;
  EXPECT_THAT(tee.Begin(kClip), IsOk());
  EXPECT_THAT(tee.Frames(0, none), IsOk());
  EXPECT_THAT(tee.Audio(none), IsOk());
  EXPECT_THAT(tee.End(), IsOk());
  EXPECT_EQ(first, 4);
  EXPECT_EQ(second, 4);
}

TEST(TeeSinkTest, TheFirstErrorIsReturned) {
  int first = 0, second = 0;
  TeeSink tee;
  tee.Add(std::make_unique<CountingSink>(first, absl::ResourceExhaustedError("disk")));
  tee.Add(std::make_unique<CountingSink>(second));
  EXPECT_EQ(tee.End(), absl::ResourceExhaustedError("disk"));
  EXPECT_EQ(tee.Failure(), absl::ResourceExhaustedError("disk"));
  EXPECT_EQ(second, 0);
}

}  // namespace
}  // namespace kinora
