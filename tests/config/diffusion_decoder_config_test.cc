#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "engine/config/config_reader.h"
#include "engine/config/released_models.h"
#include "nlohmann/json.hpp"
#include "tests/config/config_files.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using Json = nlohmann::json;
using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// The `vae` section of the released file.
Json ReleasedVae() {
  return Json::parse(R"({"_class_name": "CausalDiffusionVAE", "model_output_type": "x0",
    "decoder": {"in_channels": 128, "out_channels": 3, "patch_size": 4, "head_dim": 64,
      "stage_channels": [2048, 1024, 512, 512, 256], "stage_depths": [4, 6, 4, 2, 8],
      "stage_kernels": [[3, 7, 7], [3, 7, 7], [3, 5, 5], [3, 5, 5], [11, 11, 11]],
      "upsamples": [[[1, 2, 2], 2], [[2, 1, 1], 2], [[2, 2, 2], 1], [[2, 2, 2], 2]],
      "stage5_kernel": [11, 11, 11], "timestep_scale_multiplier": 1000, "default_num_inference_steps": 1,
      "resampler_kind": "linear"}})");
}

absl::StatusOr<ModelConfig> ParseWith(const Json& vae) {
  Json config = ReadConfigFile("lightricks_2.5");
  config["config"]["vae"] = vae;
  return ParseConfig(config);
}

TEST(DiffusionDecoderConfig, TheReleasedOneIsRead) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig model, ParseWith(ReleasedVae()));
  const VideoDecoderConfig& video = model.video_decoder;
  ASSERT_TRUE(video.diffusion.has_value());
  EXPECT_FALSE(video.absent());
  EXPECT_EQ(video.time_factor(), 8);
  EXPECT_EQ(video.space_factor(), 32);
  EXPECT_EQ(video.smallest_latent_side(), 1) << "smaller clips are padded";
  const DiffusionDecoderConfig& d = *video.diffusion;
  ASSERT_EQ(d.stages.size(), 4u);
  EXPECT_EQ(d.stages[1].width, 1024);
  EXPECT_EQ(d.stages[1].blocks, 6);
  EXPECT_THAT(d.stages[2].window, ElementsAre(3, 5, 5));
  EXPECT_THAT(d.stages[1].stride, ElementsAre(2, 1, 1));
  EXPECT_EQ(d.context_width, 256);
  EXPECT_EQ(d.denoiser.width, 256);
  EXPECT_EQ(d.denoiser.blocks, 8);
  EXPECT_THAT(d.denoiser.window, ElementsAre(11, 11, 11));
  EXPECT_THAT(d.SmallestLatent(), ElementsAre(3, 7, 7));
  EXPECT_EQ(d.ghost_frames(), 2);
  EXPECT_EQ(d.steps, 1);
  EXPECT_FALSE(d.predicts_velocity);
  EXPECT_EQ(d.timestep_scale, 1000);
  EXPECT_EQ(d.timestep_width, 384);
}

TEST(DiffusionDecoderConfig, AReleasedModelHasItAndTheEncoderOfTheOtherFile) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig model, ReleasedModelConfig("ltx-2.5-22b-diffusion-decoder"));
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig other, ReleasedModelConfig("ltx-2.5-22b"));
  EXPECT_TRUE(model.video_decoder.diffusion.has_value());
  EXPECT_EQ(model.video_encoder.unavailable, "");
  EXPECT_TRUE(model.video_encoder == other.video_encoder);
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig file, ParseWith(ReleasedVae()));
  EXPECT_TRUE(model.video_decoder == file.video_decoder);
}

// Files with optional names and without optional values.
TEST(DiffusionDecoderConfig, AbsentValuesAreTheReferences) {
  Json vae = ReleasedVae();
  vae.erase("model_output_type");
  Json& decoder = vae["decoder"];
  decoder["na_head_dim"] = 32;
  decoder["stage5_channels"] = 512;
  for (const char* key : {"head_dim", "timestep_scale_multiplier", "default_num_inference_steps", "resampler_kind"}) {
    decoder.erase(key);
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig model, ParseWith(vae));
  const DiffusionDecoderConfig& d = *model.video_decoder.diffusion;
  EXPECT_EQ(d.head_width, 32);
  EXPECT_EQ(d.denoiser.width, 512);
  EXPECT_EQ(d.context_width, 256);
  EXPECT_TRUE(d.predicts_velocity);
  EXPECT_EQ(d.steps, 2);
  EXPECT_EQ(d.timestep_scale, 1);
  Json flat = decoder;
  flat["_class_name"] = "CausalDiffusionVAE";
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig other, ParseWith(flat));
  EXPECT_TRUE(other.video_decoder == model.video_decoder);
}

TEST(DiffusionDecoderConfig, MistakesNameTheField) {
  const std::pair<std::function<void(Json&)>, const char*> mistakes[] = {
      {[](Json& d) { d.erase("stage_channels"); }, "decoder.stage_channels: must be a list of 5"},
      {[](Json& d) {
         d["stage_depths"] = {1, 2, 3};
       },
       "decoder.stage_depths: must be a list of 5"},
      {[](Json& d) { d["stage_depths"][2] = 0; }, "decoder.stage_depths"},
      {[](Json& d) { d["stage_channels"][0] = 2047; }, "decoder.upsamples: 2047 channels divided by 2"},
      {[](Json& d) { d["stage_channels"][0] = 1 << 20; }, "decoder.stage_channels"},
      {[](Json& d) { d["head_dim"] = 60; }, "decoder.head_dim: 60 is not a multiple of 8"},
      {[](Json& d) { d["head_dim"] = 8; }, "decoder.head_dim: 8 is not a multiple of 8 from 16 on"},
      {[](Json& d) {
         d["upsamples"][0] = {{1, 2, 1}, 2};
       },
       "decoder.upsamples: heights grow by 8 and widths by 4"},
      {[](Json& d) {
         d["stage_kernels"][0] = {1, 7, 7};
       },
       "the first stage needs a window over time"},
      {[](Json& d) { d["head_dim"] = 24; }, "is not a multiple of head_dim 24"},
      {[](Json& d) {
         d["stage_kernels"][1] = {3, 6, 7};
       },
       "decoder.stage_kernels: [3,6,7]"},
      {[](Json& d) {
         d["stage_kernels"][1] = {3, 7};
       },
       "decoder.stage_kernels: [3,7]"},
      {[](Json& d) { d.erase("stage_kernels"); }, "decoder.stage_kernels"},
      {[](Json& d) { d.erase("stage5_kernel"); }, "decoder.stage5_kernel: is missing"},
      {[](Json& d) {
         d["stage5_kernel"] = {11, 11, 33};
       },
       "decoder.stage5_kernel"},
      {[](Json& d) {
         d["upsamples"][0] = {{3, 2, 2}, 2};
       },
       "decoder.upsamples: [[3,2,2],2]"},
      {[](Json& d) {
         d["upsamples"][0] = {{1, 2, 2}, 0};
       },
       "decoder.upsamples"},
      {[](Json& d) {
         d["upsamples"][0] = {{1, 2, 2}, 4};
       },
       "2048 channels divided by 4 are not the 1024"},
      {[](Json& d) { d["resampler_kind"] = "conv"; }, "decoder.resampler_kind"},
      {[](Json& d) { d["default_num_inference_steps"] = 0; }, "decoder.default_num_inference_steps"},
  };
  for (const auto& [change, said] : mistakes) {
    Json vae = ReleasedVae();
    change(vae["decoder"]);
    EXPECT_THAT(ParseWith(vae).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr(said)));
  }
  Json vae = ReleasedVae();
  vae["model_output_type"] = "epsilon";
  EXPECT_THAT(ParseWith(vae).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("vae.model_output_type")));
  vae = ReleasedVae();
  vae["_class_name"] = "AnotherVAE";
  EXPECT_THAT(ParseWith(vae).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("vae._class_name")));
  vae = ReleasedVae();
  vae["decoder"]["in_channels"] = 64;
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig model, ParseWith(vae));
  EXPECT_THAT(ValidateModelConfig(model), StatusIs(StatusCode::kInvalidArgument, HasSubstr("latent channels")));
}

}  // namespace
}  // namespace kinora
