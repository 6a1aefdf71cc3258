#include "server/tools/noise_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "engine/weights/safetensors.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

class NoiseFileTest : public testing::Test {
 protected:
  ~NoiseFileTest() override { unlink(path_.c_str()); }
  void Write(const std::vector<std::pair<std::string, Tensor>>& tensors) {
    ASSERT_THAT(WriteSafetensors(path_, tensors), IsOk());
  }

  const std::string path_ = testing::TempDir() + "noise_file_" + std::to_string(getpid()) + ".safetensors";
  std::vector<float> values_ = {0.5f, -1.25f, 2, 3, 4, 5, 6, 7};
  Tensor video_{DType::kF32, {1, 2, 1, 2, 2}, values_.data()};
};

TEST_F(NoiseFileTest, ReadsWhatIsThereAndIgnoresTheRest) {
  std::vector<bf16> audio = {bf16(1.5f), bf16(-2.0f)};
  Write(
      {{"video_noise", video_}, {"audio_noise", Tensor(DType::kBF16, {1, 1, 2, 1}, audio.data())}, {"other", video_}});
  KINORA_ASSERT_OK_AND_ASSIGN(const GivenNoise noise, ReadNoiseFile(path_));
  EXPECT_EQ(noise.video->values, values_);
  EXPECT_THAT(noise.video->shape, testing::ElementsAre(1, 2, 1, 2, 2));
  EXPECT_THAT(noise.audio->values, testing::ElementsAre(1.5f, -2.0f));
}

TEST_F(NoiseFileTest, MistakesNameFileAndTensor) {
  Write({{"video_noise", video_.Reshape({8})}});
  EXPECT_THAT(ReadNoiseFile(path_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("video_noise is [8]")));
  values_[3] = std::nanf("");
  Write({{"video_noise", video_}});
  EXPECT_THAT(ReadNoiseFile(path_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not finite")));
  Write({{"noise", video_}});
  EXPECT_THAT(ReadNoiseFile(path_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path_)));
  EXPECT_THAT(ReadNoiseFile("/nonexistent"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
}

}  // namespace
}  // namespace kinora
