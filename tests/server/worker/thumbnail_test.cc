#include "server/worker/thumbnail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "engine/tensor/tensor.h"
#include "tests/testing/slopes.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The greatest difference of a colour value.
int Distance(const RgbPicture& a, const RgbPicture& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  int most = 0;
  for (size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i)
    most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}

TEST(Shrink, KeepsTheProportionsAndTheColours) {
  for (const auto& [width, height, to_width, to_height] :
       {std::array{768, 512, 256, 171}, std::array{512, 768, 171, 256}, std::array{257, 257, 256, 256},
        std::array{1920, 1080, 256, 144}, std::array{3000, 3, 256, 1}}) {
    const RgbPicture small = Shrink(Slopes(width, height), 256);
    EXPECT_EQ(small.width, to_width);
    EXPECT_EQ(small.height, to_height);
    if (height > 3) {
      EXPECT_LE(Distance(small, Slopes(to_width, to_height)), 4) << width << "x" << height;
    }
  }
  EXPECT_EQ(Shrink(Slopes(256, 100), 256), Slopes(256, 100));  // it is small enough
}

// Lines of one pixel would become stripes if most pixels were skipped.
TEST(Shrink, AveragesThePixelsThatBecomeOne) {
  RgbPicture lines{.width = 1024, .height = 1024, .rgb = std::vector<uint8_t>(3 * 1024 * 1024)};
  for (size_t i = 0; i < lines.rgb.size(); ++i) lines.rgb[i] = i / (3 * 1024) % 2 == 0 ? 0 : 200;
  const RgbPicture small = Shrink(std::move(lines), 256);
  EXPECT_THAT(small.rgb, testing::Each(testing::AllOf(testing::Ge(98), testing::Le(102))));
}

// Notes its calls.
class NotingSink : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo& info) override { return Note(100 * info.num_frames); }
  absl::Status Frames(int64_t first, const Tensor& rgb8) override { return Note(10 * first + rgb8.dim(0)); }
  absl::Status Audio(const Tensor&) override { return Note(-1); }
  absl::Status Failure() const override { return answer; }
  absl::Status End() override { return Note(-2); }
  std::vector<int64_t> calls;
  absl::Status answer;

 private:
  absl::Status Note(int64_t call) {
    calls.push_back(call);
    return answer;
  }
};

class ThumbnailSinkTest : public testing::Test {
 protected:
  ThumbnailSinkTest() {
    info_.width = 24;
    info_.height = 16;
    info_.num_frames = 9;
    for (int64_t frame = 0; frame < info_.num_frames; ++frame) {  // greys, lighter from frame to frame
      pixels_.insert(pixels_.end(), 3 * info_.width * info_.height, static_cast<uint8_t>(25 * frame));
    }
  }
  absl::Status Pass(int64_t first, int64_t count) {
    uint8_t* const begin = pixels_.data() + first * 3 * info_.width * info_.height;
    return thumbnail_.Frames(first, Tensor(DType::kU8, {count, info_.height, info_.width, 3}, begin));
  }

  ClipInfo info_;
  std::vector<uint8_t> pixels_;
  NotingSink clip_;
  ThumbnailSink thumbnail_{clip_};
};

TEST_F(ThumbnailSinkTest, PassesTheClipOnAndKeepsItsMiddleFrame) {
  EXPECT_THAT(thumbnail_.Begin(info_), IsOk());
  EXPECT_THAT(Pass(0, 3), IsOk());
  std::vector<float> silence(4);
  EXPECT_THAT(thumbnail_.Audio(Tensor(DType::kF32, {1, 4}, silence.data())), IsOk());
  EXPECT_THAT(Pass(3, 4), IsOk());
  EXPECT_THAT(Pass(7, 2), IsOk());
  EXPECT_THAT(thumbnail_.End(), IsOk());
  EXPECT_THAT(clip_.calls, ElementsAre(900, 3, -1, 34, 72, -2));
  KINORA_ASSERT_OK_AND_ASSIGN(const RgbPicture picture, DecodeJpeg(thumbnail_.jpeg(), 256));
  EXPECT_EQ(picture.width, 24);
  EXPECT_EQ(picture.height, 16);
  EXPECT_THAT(picture.rgb, testing::Each(testing::AllOf(testing::Ge(98), testing::Le(102))));  // of frame 4
}

TEST_F(ThumbnailSinkTest, TheOnlyFrameIsTheMiddleOne) {
  info_.num_frames = 1;
  EXPECT_THAT(thumbnail_.Begin(info_), IsOk());
  EXPECT_THAT(Pass(0, 1), IsOk());
  EXPECT_THAT(thumbnail_.End(), IsOk());
  EXPECT_THAT(DecodeJpeg(thumbnail_.jpeg(), 24), IsOk());
}

TEST_F(ThumbnailSinkTest, AFailureOfTheClipIsItsOwnAndAMissingFrameIsTold) {
  clip_.answer = absl::ResourceExhaustedError("the disk is full");
  EXPECT_THAT(thumbnail_.Begin(info_), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Pass(0, 3), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(thumbnail_.Failure(), StatusIs(absl::StatusCode::kResourceExhausted));
  clip_.answer = absl::OkStatus();
  EXPECT_THAT(thumbnail_.End(), StatusIs(absl::StatusCode::kInternal, HasSubstr("frame 4")));
}

}  // namespace
}  // namespace kinora
