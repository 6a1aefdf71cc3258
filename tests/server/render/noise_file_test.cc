#include "server/render/noise_file.h"

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
  EXPECT_EQ(noise.draws.size(), 2u);
  EXPECT_EQ(noise.Find("video_noise")->values, values_);
  EXPECT_THAT(noise.Find("video_noise")->shape, testing::ElementsAre(1, 2, 1, 2, 2));
  EXPECT_THAT(noise.Find("audio_noise")->values, testing::ElementsAre(1.5f, -2.0f));
}

TEST_F(NoiseFileTest, ReadsEveryDrawOfAnyRun) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : NoiseNames()) tensors.emplace_back(name, video_);
  tensors.emplace_back("video_noise_round1_tile0", video_);
  for (const char* name : {"decoder_noise", "decoder_noise_tile12"}) tensors.emplace_back(name, video_);
  Write(tensors);
  KINORA_ASSERT_OK_AND_ASSIGN(const GivenNoise noise, ReadNoiseFile(path_));
  EXPECT_EQ(noise.draws.size(), NoiseNames().size() + 2);
  for (const char* name :
       {"video_noise", "audio_noise", "video_noise_appended", "video_noise_stage2", "audio_noise_step",
        "video_noise_appended_substep_stage2", "decoder_noise", "decoder_noise_tile12"}) {
    EXPECT_NE(noise.Find(name), nullptr) << name;
  }
}

// Noise that no run of this build draws.
TEST_F(NoiseFileTest, DrawsOfOtherModelsAreIgnored) {
  std::vector<int32_t> whole = {1, 2, 3, 4};
  Write({{"decoder_noise_tile", Tensor(DType::kI32, {4}, whole.data())}});
  KINORA_ASSERT_OK_AND_ASSIGN(const GivenNoise noise, ReadNoiseFile(path_));
  EXPECT_TRUE(noise.draws.empty());
}

TEST_F(NoiseFileTest, MistakesNameFileAndTensor) {
  std::vector<int32_t> whole(8);
  Write({{"video_noise_stage2", Tensor(DType::kI32, {8}, whole.data())}});
  EXPECT_THAT(ReadNoiseFile(path_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("video_noise_stage2 is not of a floating")));
  values_[3] = std::nanf("");
  Write({{"video_noise", video_}});
  EXPECT_THAT(ReadNoiseFile(path_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not finite")));
  Write({{"noise", video_}});
  EXPECT_THAT(ReadNoiseFile(path_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path_)));
  EXPECT_THAT(ReadNoiseFile("/nonexistent"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
}

}  // namespace
}  // namespace kinora
