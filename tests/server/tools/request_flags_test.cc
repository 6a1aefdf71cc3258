#include "server/tools/request_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace kinora {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<v1::CreateVideoRequest> Parse(const std::vector<std::string>& arguments) {
  const auto line = CommandLine::Parse(RequestFlags(), arguments);
  if (!line.ok()) return line.status();
  return RequestFromFlags(*line);
}

TEST(RequestFlags, SayTheWholeRequest) {
  const auto request = Parse({"--prompt",
                              "a fox",
                              "--negative-prompt",
                              "",
                              "--width=64",
                              "--height=32",
                              "--frames=9",
                              "--seed=7",
                              "--recipe",
                              "distilled",
                              "--sigmas",
                              "1,0.5,0",
                              "--video-guidance",
                              R"({"cfg_scale": 3})",
                              "--lora",
                              "style:0.5",
                              "--container",
                              "webm",
                              "--trace",
                              "--crf",
                              "0",
                              "--ttl",
                              "90",
                              "--deadline",
                              "1h",
                              "--priority",
                              "-2",
                              "--label",
                              "team=a=b",
                              "--request-id",
                              "key"});
  ASSERT_TRUE(request.ok()) << request.status();
  const v1::Generation& g = request->generation();
  EXPECT_EQ(g.prompt(), "a fox");
  EXPECT_TRUE(g.has_negative_prompt());
  EXPECT_EQ(g.width(), 64);
  EXPECT_EQ(g.num_frames(), 9);
  EXPECT_EQ(g.seed(), 7u);
  EXPECT_EQ(g.recipe(), v1::Generation::DISTILLED);
  EXPECT_THAT(g.sigmas(), ElementsAre(1, 0.5, 0));
  EXPECT_EQ(g.video_guidance().cfg_scale(), 3);
  EXPECT_EQ(g.loras(0).strength(), 0.5);
  EXPECT_EQ(request->output().container(), v1::Output::WEBM);
  EXPECT_TRUE(request->output().has_crf());
  EXPECT_TRUE(request->output().trace());
  EXPECT_EQ(request->output().ttl().seconds(), 90);
  EXPECT_EQ(request->scheduling().deadline().seconds(), 3600);
  EXPECT_EQ(request->scheduling().priority(), -2);
  EXPECT_EQ(request->labels().at("team"), "a=b");
  EXPECT_EQ(request->request_id(), "key");
}

TEST(RequestFlags, ThePromptMayBeTheOneOperand) {
  const auto request = Parse({"a red circle", "--seed", "7"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generation().prompt(), "a red circle");
  const auto twice = Parse({"a red circle", "--prompt", "a fox"});
  EXPECT_THAT(twice.status().message(), HasSubstr("PROMPT, --prompt and --prompt-file: give one of them"));
}

TEST(RequestFlags, LeaveDefaultsToTheServer) {
  const auto request = Parse({"--prompt", "a fox"});
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->generation().has_seed());
  EXPECT_FALSE(request->generation().has_negative_prompt());
  EXPECT_EQ(request->generation().width(), 0);
  EXPECT_FALSE(request->scheduling().has_deadline());
}

TEST(RequestFlags, EachRequestHasAKeyOfItsOwn) {
  EXPECT_NE(Parse({"--prompt", "a"})->request_id(), Parse({"--prompt", "a"})->request_id());
}

TEST(RequestFlags, OverrideTheFieldsOfARequestFile) {
  const std::string path = testing::TempDir() + "/request_flags_test.json";
  std::ofstream(path) << R"({"prompt": "from the file", "numFrames": 17, "sigmas": [1, 0]})";
  const auto request = Parse({"--request", path, "--prompt", "from the flag", "--sigmas", "1,0.7,0"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generation().prompt(), "from the flag");
  EXPECT_EQ(request->generation().num_frames(), 17);
  EXPECT_THAT(request->generation().sigmas(), ElementsAre(1, 0.7, 0));
}

TEST(RequestFlags, NamesAreTakenInAnyCaseAndWithDashes) {
  for (const char* name : {"TWO_STAGE", "two_stage", "two-stage", "Two-Stage"}) {
    const auto request = Parse({"a fox", "--recipe", name});
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->generation().recipe(), v1::Generation::TWO_STAGE);
  }
  EXPECT_EQ(Parse({"a fox", "--container", "png-frames"})->output().container(), v1::Output::PNG_FRAMES);
  EXPECT_EQ(Parse({"a fox", "--ttl", "1d"})->output().ttl().seconds(), 86400);
  EXPECT_EQ(Parse({"a fox", "--container", "webp"}).status().message(),
            "--container webp: one of mp4, webm, png_frames, wav is needed; did you mean webm?");
  EXPECT_FALSE(Parse({"a fox", "--recipe", "recipe_unspecified"}).ok());
}

TEST(RequestFlags, ErrorsNameTheFlag) {
  const std::vector<std::vector<std::string>> bad = {
      {"--recipe", "fastest"},   {"--sigmas", "1,,0"},    {"--lora", "a:b"},
      {"--label", "novalue"},    {"--width", "64.5"},     {"--video-guidance", "{\"x\":1}"},
      {"--request", "/nowhere"}, {"--frame-rate", "nan"}, {"--steps", "0"},
      {"--width", "0"},          {"--height", "-64"},     {"--frames", "0"},
      {"--frame-rate", "0"},     {"--crf", "-1"},         {"--ttl", "soon"}};
  for (const auto& arguments : bad) {
    const auto request = Parse(arguments);
    ASSERT_FALSE(request.ok()) << arguments[0];
    EXPECT_THAT(request.status().message(), HasSubstr(arguments[0]));
  }
}

}  // namespace
}  // namespace kinora
