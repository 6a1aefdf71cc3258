#include "server/request/request_flags.h"

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
                              "--thumbnail",
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
  EXPECT_TRUE(request->output().thumbnail());
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
  EXPECT_THAT(twice.status().message(), HasSubstr("PROMPT, --prompt and --prompt-file exclude each other"));
}

TEST(RequestFlags, SizeAndDurationAreWidthHeightAndFrames) {
  const auto request = Parse({"a fox", "--size", "768x512", "--duration", "5s", "--fps", "25"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generation().width(), 768);
  EXPECT_EQ(request->generation().height(), 512);
  EXPECT_EQ(request->generation().frame_rate(), 25);
  EXPECT_EQ(request->generation().num_frames(), 121);  // the nearest 8k + 1 to 125
  const std::pair<const char*, int> lengths[] = {{"5", 121}, {"1.04", 25}, {"0.2", 1}, {"0.25", 9}, {"10s", 241}};
  for (const auto& [duration, frames] : lengths) {
    const auto at_24 = Parse({"a fox", "--duration", duration});
    ASSERT_TRUE(at_24.ok()) << at_24.status();
    EXPECT_EQ(at_24->generation().num_frames(), frames) << duration;
    EXPECT_EQ(at_24->generation().frame_rate(), 24);
  }
}

TEST(RequestFlags, AnAutomaticLengthReplacesOneOfARequestFile) {
  const std::string path = testing::TempDir() + "/request_flags_test_length.json";
  std::ofstream(path) << R"({"prompt": "a fox", "numFrames": 17})";
  const auto chosen = Parse({"--request", path, "--auto-length", "0.5..12"});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->generation().num_frames(), 0);
  EXPECT_EQ(chosen->generation().auto_length().min_seconds(), 0.5);
  EXPECT_EQ(chosen->generation().auto_length().max_seconds(), 12);
  std::ofstream(path) << R"({"prompt": "a fox", "autoLength": {}})";
  EXPECT_TRUE(Parse({"--request", path})->generation().has_auto_length());
  EXPECT_FALSE(Parse({"--request", path, "--frames", "9"})->generation().has_auto_length());
}

TEST(RequestFlags, GuidanceTermsChangeTheRecipesDefaults) {
  const auto request = Parse({"a fox", "--cfg", "4", "--stg", "1,0"});
  ASSERT_TRUE(request.ok()) << request.status();
  const v1::Guidance &video = request->generation().video_guidance(), &audio = request->generation().audio_guidance();
  EXPECT_EQ(video.cfg_scale(), 4);
  EXPECT_EQ(audio.cfg_scale(), 4);
  EXPECT_EQ(video.stg_scale(), 1);
  EXPECT_EQ(audio.stg_scale(), 0);
  EXPECT_TRUE(video.keep_defaults() && audio.keep_defaults());
  EXPECT_FALSE(video.has_rescale() || video.has_modality_scale());
  // Terms that a message leaves out are off, as without flags.
  const auto over = Parse({"a fox", "--video-guidance", R"({"stgScale": 1})", "--cfg", "4", "--audio-only"});
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_FALSE(over->generation().video_guidance().has_cfg_scale());  // there is no picture
  EXPECT_FALSE(over->generation().video_guidance().keep_defaults());
  EXPECT_EQ(over->generation().audio_guidance().cfg_scale(), 4);
  const auto merged = Parse({"a fox", "--video-guidance", R"({"stgScale": 1})", "--rescale", "0.5"});
  EXPECT_EQ(merged->generation().video_guidance().stg_scale(), 1);
  EXPECT_EQ(merged->generation().video_guidance().rescale(), 0.5);
  EXPECT_FALSE(merged->generation().video_guidance().keep_defaults());
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
            "--container webp: must be one of mp4, webm, png_frames, wav; did you mean webm?");
  EXPECT_FALSE(Parse({"a fox", "--recipe", "recipe_unspecified"}).ok());
}

TEST(RequestFlags, ErrorsNameTheFlag) {
  const std::vector<std::vector<std::string>> bad = {
      {"--recipe", "fastest"},   {"--sigmas", "1,,0"},      {"--lora", "a:b"},
      {"--label", "novalue"},    {"--width", "64.5"},       {"--video-guidance", "{\"x\":1}"},
      {"--request", "/nowhere"}, {"--frame-rate", "nan"},   {"--steps", "0"},
      {"--width", "0"},          {"--height", "-64"},       {"--frames", "0"},
      {"--frame-rate", "0"},     {"--crf", "-1"},           {"--ttl", "soon"},
      {"--size", "768"},         {"--size", "0x64"},        {"--size", "64x64", "--width", "64"},
      {"--duration", "0"},       {"--duration", "1e9"},     {"--duration", "5s", "--frames", "9"},
      {"--auto-length", "5"},    {"--auto-length", "1..x"}, {"--auto-length", "1..2", "--duration", "2s"},
      {"--cfg", "high"},         {"--cfg", "1,2,3"},        {"--rescale", "nan"}};
  for (const auto& arguments : bad) {
    const auto request = Parse(arguments);
    ASSERT_FALSE(request.ok()) << arguments[0];
    EXPECT_THAT(request.status().message(), HasSubstr(arguments[0]));
  }
}

}  // namespace
}  // namespace kinora
