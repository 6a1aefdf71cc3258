#include "server/render/render_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "engine/ops/backend.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<RenderOptions> Parse(std::vector<std::string> extra) {
  std::vector<std::string> arguments = {"--model", "model", "--output", "clip.mp4"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return ParseRenderFlags(arguments);
}

TEST(RenderFlagsTest, ReadsTheRequestAndLetsFlagsOverrideIt) {
  const std::string path = testing::TempDir() + "render_flags_request.json";
  std::ofstream(path)
      << R"({"prompt": "a fox", "width": 64, "numFrames": 9, "recipe": "DISTILLED", "seed": "18446744073709551615"})";
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions options, Parse({"--request", path, "--width", "96", "--height=32"}));
  EXPECT_EQ(options.generation.prompt(), "a fox");
  EXPECT_EQ(options.generation.width(), 96);
  EXPECT_EQ(options.generation.height(), 32);
  EXPECT_EQ(options.generation.num_frames(), 9);
  EXPECT_EQ(options.generation.recipe(), v1::Generation::DISTILLED);
  EXPECT_EQ(options.generation.seed(), ~uint64_t{0});
  EXPECT_FALSE(options.seed_drawn);
  unlink(path.c_str());
}

TEST(RenderFlagsTest, ReadsEveryOption) {
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions options, Parse({"--model",
                                                                  "text_encoder=gemma",
                                                                  "--noise",
                                                                  "n.safetensors",
                                                                  "--dump",
                                                                  "d.safetensors",
                                                                  "--trace",
                                                                  "t.json",
                                                                  "--prompt",
                                                                  "a fox",
                                                                  "--json",
                                                                  "--quiet",
                                                                  "--untiled-decode",
                                                                  "--decoder-border",
                                                                  "repeat",
                                                                  "--device",
                                                                  "cpu",
                                                                  "--precision",
                                                                  "f32",
                                                                  "--ranks",
                                                                  "tokens=2,guidance=4",
                                                                  "--threads",
                                                                  "3",
                                                                  "--output-options",
                                                                  R"({"crf": 30, "embedPrompt": true})",
                                                                  "--sigmas",
                                                                  "1,0.5,0",
                                                                  "--video-guidance",
                                                                  R"({"cfgScale": 3})"}));
  EXPECT_THAT(options.model, testing::ElementsAre("model", "text_encoder=gemma"));
  EXPECT_EQ(options.noise_path, "n.safetensors");
  EXPECT_EQ(options.dump_path, "d.safetensors");
  EXPECT_EQ(options.trace_path, "t.json");
  EXPECT_TRUE(options.json);
  EXPECT_TRUE(options.quiet);
  EXPECT_TRUE(options.untiled_decode);
  EXPECT_EQ(options.decoder_border, DecoderBorder::kRepeat);
  EXPECT_EQ(options.precision, DType::kF32);
  EXPECT_EQ(options.mesh.tokens, 2);
  EXPECT_EQ(options.mesh.guidance, 4);
  EXPECT_EQ(options.mesh.tensor, 1);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.output.crf(), 30);
  EXPECT_TRUE(options.output.embed_prompt());
  EXPECT_EQ(options.generation.sigmas_size(), 3);
  EXPECT_EQ(options.generation.video_guidance().cfg_scale(), 3);
}

TEST(RenderFlagsTest, FlagsOfTheCudaBackendCanTurnOffWhatTheEnvironmentSays) {
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions none, Parse({"--prompt", "a"}));
  EXPECT_EQ(none.cuda.off, std::nullopt);
  EXPECT_EQ(none.cuda.synchronize, std::nullopt);
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions some,
                              Parse({"--prompt", "a", "--cuda-off", "tuning,branch", "--cuda-synchronize"}));
  EXPECT_EQ(some.cuda.off, (CudaSwitches{.branch = false, .tuning = false}));
  EXPECT_EQ(some.cuda.synchronize, true);
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions all_on,
                              Parse({"--prompt", "a", "--cuda-off=", "--cuda-synchronize=false"}));
  EXPECT_EQ(all_on.cuda.off, CudaSwitches{});
  EXPECT_EQ(all_on.cuda.synchronize, false);
}

TEST(RenderFlagsTest, DrawsAnAbsentSeed) {
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions one, Parse({"--prompt", "a"}));
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions two, Parse({"--prompt", "a"}));
  EXPECT_TRUE(one.seed_drawn);
  EXPECT_FALSE(one.untiled_decode);
  EXPECT_TRUE(one.generation.has_seed());
  EXPECT_NE(one.generation.seed(), two.generation.seed());
}

TEST(RenderFlagsTest, MistakesNameTheFlagOrField) {
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"--widht", "3"}, "--widht"},
      {{"--width", "wide"}, "--width"},
      {{"--width", "-32"}, "--width -32:"},
      {{"--precision", "f64"}, "--precision"},
      {{"--device", "tpu"}, "--device"},
      {{"--decoder-border", "mirror"}, "--decoder-border: \"mirror\" is not shift or repeat"},
      {{"--ranks", "rows=2"}, "--ranks"},
      {{"--ranks", "tokens=3"}, "--ranks"},
      {{"--ranks", "tokens="}, "--ranks"},
      {{"--threads", "0"}, "--threads"},
      {{"--cuda-off", "graph"}, "--cuda-off: \"graph\" is none of graphs, early-launch, branch, cudnn, tuning"},
      {{"--cuda-synchronize=maybe"}, "--cuda-synchronize: \"maybe\" is not true or false"},
      {{"--output", "clip.avi"}, "--output"},
      {{"--output", "/nonexistent/clip.mp4"}, "--output"},
      {{"--dump", "/nonexistent/d.safetensors"}, "--dump"},
      {{"--trace", ""}, "--trace"},
      {{"--preview", "now.png"}, "--preview now.png: must end in .jpg"},
      {{"--preview-every", "2"}, "--preview-every: needs --preview FILE.jpg"},
      {{"--output-options", "{\"previewEverySteps\": 2}"}, "--preview-every: needs --preview FILE.jpg"},
      {{"--output-options", "{\"trace\": true}"}, "--output-options: trace: use --trace FILE"},
      {{"--output-options", "{\"thumbnail\": true}"}, "--output-options: thumbnail: only a server's jobs have one"},
      {{"--output-options", "{\"crf\": 99}"}, "crf:"},
      {{"--output-options", "{\"colour\": 1}"}, "--output-options"},
      {{"--sigmas", "0.5,0.7,0"}, "sigmas[1]:"},
      {{"--sigmas", "nan,0"}, "sigmas[0]:"},
      {{"--frame-rate", "500"}, "frame_rate: 500 is not within 1..240; nearest: 240"},
      {{"--video-guidance", "{\"skipStep\": 5000}"}, "video_guidance.skip_step: 5000"},
      {{"stray"}, "stray"},
      {{"--device-memory", "1"}, "--device-memory"},
      {{"--plan", "--device-memory", "0"}, "--device-memory"},
  };
  for (const auto& [flags, name] : mistakes) {
    EXPECT_THAT(Parse(flags), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(name))) << flags[0];
  }
  EXPECT_THAT(Parse({"--request", "/nonexistent.json"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent.json")));
  EXPECT_THAT(ParseRenderFlags({}), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("--model")));
  const std::vector<std::string> nowhere = {"--model", "m"};
  EXPECT_THAT(ParseRenderFlags(nowhere), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("--output")));
}

TEST(RenderFlagsTest, WhatThisBuildLacksSaysSoAndIsPromisedNowhere) {
  EXPECT_THAT(RenderUsage(), testing::Not(HasSubstr("fp8")));
  EXPECT_THAT(RenderUsage(), testing::Not(HasSubstr("--compare")));
  if (absl::IsUnimplemented(DeviceName("cuda", {}).status())) {  // otherwise this build has it
    EXPECT_THAT(Parse({"--device", "cuda"}),
                StatusIs(absl::StatusCode::kUnimplemented, StartsWith("--device: cuda: not available in this build")));
  }
  EXPECT_THAT(Parse({"--precision", "fp8"}),
              StatusIs(absl::StatusCode::kUnimplemented, StartsWith("--precision: fp8: not available on the device")));
}

TEST(RenderFlagsTest, APromptThatWasForgottenIsRefusedAndAnEmptyOneIsSaidOutLoud) {
  const std::string request = testing::TempDir() + "no_prompt.json", prompt = testing::TempDir() + "empty.txt";
  std::ofstream(request) << R"({"width": 64})";
  std::ofstream(prompt) << "\n";
  const std::pair<std::vector<std::string>, std::string> forgotten[] = {
      {{}, "--prompt: is missing; describe the clip"},
      {{"--request", request}, "--request " + request + ": prompt: is empty"},
      {{"--prompt-file", prompt}, "--prompt-file " + prompt + ": is empty"},
  };
  for (const auto& [flags, words] : forgotten) {
    EXPECT_THAT(Parse(flags), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(words)));
  }
  EXPECT_THAT(Parse({"--prompt", ""}), IsOk());
  EXPECT_THAT(Parse({"--plan"}), IsOk());  // makes no clip
  unlink(request.c_str());
  unlink(prompt.c_str());
}

TEST(RenderFlagsTest, HelpNeedsNothingElseAndListsEveryFlag) {
  const std::vector<std::string> help = {"--help"};
  KINORA_ASSERT_OK_AND_ASSIGN(const RenderOptions options, ParseRenderFlags(help));
  EXPECT_TRUE(options.help);
  for (const FlagSpec& flag : RenderFlags()) EXPECT_THAT(RenderUsage(), HasSubstr("--" + std::string(flag.name)));
}

}  // namespace
}  // namespace kinora
