#include "server/worker/output_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::StrEq;

v1::Generation Effective() {
  v1::Generation g;
  g.set_prompt("a fox");
  g.set_seed(7);
  return g;
}

TEST(OutputOptionsTest, DefaultsAreMp4WithSoundAtCrf19) {
  KINORA_ASSERT_OK_AND_ASSIGN(const FileSinkOptions options, ToFileSinkOptions(v1::Output(), Effective()));
  EXPECT_EQ(options.container, Container::kMp4);
  EXPECT_EQ(options.crf, 19);
  EXPECT_FALSE(options.without_audio);
  EXPECT_EQ(options.parameters, "");
  EXPECT_EQ(options.prompt, "");
}

TEST(OutputOptionsTest, SoundAloneDefaultsToWav) {
  v1::Generation g = Effective();
  g.set_audio_only(true);
  KINORA_ASSERT_OK_AND_ASSIGN(const FileSinkOptions options, ToFileSinkOptions(v1::Output(), g));
  EXPECT_EQ(options.container, Container::kWav);
}

TEST(OutputOptionsTest, SoundAloneIsNotWrittenWhereThereIsNoSound) {
  v1::Generation g = Effective();
  g.set_audio_only(true);
  v1::Output output;
  output.set_container(v1::Output::MP4);
  EXPECT_EQ(ToFileSinkOptions(output, g)->container, Container::kMp4);
  output.set_without_audio(true);
  EXPECT_THAT(ToFileSinkOptions(output, g),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("without_audio: ")));
  for (const Container pictures : {Container::kPngFrames, Container::kPngFolder}) {
    EXPECT_THAT(ToFileSinkOptions(v1::Output(), g, pictures),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StrEq("container: audio_only generates no picture; nearest: WAV")));
  }
}

TEST(OutputOptionsTest, EveryFieldArrives) {
  v1::Output output;
  output.set_container(v1::Output::WEBM);
  output.set_crf(0);
  output.set_without_audio(true);
  output.set_embed_parameters(true);
  output.set_embed_prompt(true);
  KINORA_ASSERT_OK_AND_ASSIGN(const FileSinkOptions options, ToFileSinkOptions(output, Effective()));
  EXPECT_EQ(options.container, Container::kWebm);
  EXPECT_EQ(options.crf, 0);
  EXPECT_TRUE(options.without_audio);
  EXPECT_THAT(options.parameters, HasSubstr("\"seed\":\"7\""));
  EXPECT_EQ(options.prompt, "a fox");
}

TEST(OutputOptionsTest, AFileNameThatDisagreesIsRefused) {
  v1::Output output;
  output.set_container(v1::Output::PNG_FRAMES);
  EXPECT_THAT(ToFileSinkOptions(output, Effective(), Container::kMp4),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("container: PNG_FRAMES")));
  EXPECT_EQ(ToFileSinkOptions(output, Effective(), Container::kPngFolder)->container, Container::kPngFolder);
  EXPECT_EQ(ToFileSinkOptions(v1::Output(), Effective(), Container::kWav)->container, Container::kWav);
}

TEST(OutputOptionsTest, AThumbnailIsOfAPicture) {
  v1::Output output;
  output.set_thumbnail(true);
  EXPECT_THAT(ToFileSinkOptions(output, Effective()), IsOk());
  v1::Generation sound = Effective();
  sound.set_audio_only(true);
  EXPECT_THAT(ToFileSinkOptions(output, sound),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("thumbnail: audio_only")));
}

TEST(OutputOptionsTest, PreviewsAreOfAPicture) {
  v1::Output output;
  output.set_preview_every_steps(2);
  EXPECT_THAT(ToFileSinkOptions(output, Effective()), IsOk());
  v1::Generation sound = Effective();
  sound.set_audio_only(true);
  EXPECT_THAT(ToFileSinkOptions(output, sound),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("preview_every_steps: audio_only")));
}

}  // namespace
}  // namespace kinora
