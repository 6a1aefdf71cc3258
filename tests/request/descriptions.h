// Model descriptions for tests of the request rules.
#ifndef KINORA_TESTS_REQUEST_DESCRIPTIONS_H_
#define KINORA_TESTS_REQUEST_DESCRIPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request/model_description.h"

namespace kinora {

struct DescriptionOptions {
  std::string family = "ltx-2.3", kind = "dev";
  int32_t blocks = 48, steps = 30;
  int32_t width = 768, height = 512, num_frames = 121;  // defaults
  int32_t max_width = 4096, max_height = 4096, max_frames = 497, min_size = 32;
  int64_t max_tokens = 20'000;
};

// A model whose clips render instantly.
inline DescriptionOptions Tiny() {
  return {.blocks = 4,
          .steps = 4,
          .width = 64,
          .height = 64,
          .num_frames = 9,
          .max_width = 256,
          .max_height = 256,
          .max_frames = 33,
          .max_tokens = 128};
}

// Describes ONE_STAGE and DISTILLED, as the pipeline does for every model.
inline ModelDescription DescribeModel(const DescriptionOptions& o) {
  ModelDescription model{
      .family = o.family,
      .kind = o.kind,
      .default_recipe = o.kind == "dev"         ? Recipe::kOneStage
                        : o.kind == "distilled" ? Recipe::kDistilled
                                                : Recipe::kUnspecified,
      .blocks = o.blocks,
      .pixels_per_token = 32,
      .frames_per_token = 8,
      .makes_video = true,
      .makes_audio = true,
      .parts = {.video_encoder = true, .audio_encoder = true, .duration_head = o.family == "ltx-2.5"}};
  model.trained_shapes = {{.width = o.width, .height = o.height, .num_frames = o.num_frames}};
  RecipeDescription recipe{.size_multiple = 32,
                           .frame_multiple = 8,
                           .min_size = o.min_size,
                           .max_width = o.max_width,
                           .max_height = o.max_height,
                           .max_frames = o.max_frames,
                           .max_tokens = o.max_tokens};
  recipe.defaults.width = o.width;
  recipe.defaults.height = o.height;
  recipe.defaults.num_frames = o.num_frames;
  recipe.defaults.frame_rate = 24;
  RecipeDescription distilled = recipe;
  distilled.recipe = distilled.defaults.recipe = Recipe::kDistilled;
  distilled.fixed_sigmas = {1, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0};
  distilled.defaults.num_inference_steps = 8;
  recipe.recipe = recipe.defaults.recipe = Recipe::kOneStage;
  recipe.guided = true;
  recipe.defaults.num_inference_steps = o.steps;
  recipe.defaults.negative_prompt = "blurry";
  const std::vector<int32_t> stg_blocks = {o.blocks * 28 / 48};
  recipe.defaults.video_guidance =
      GuidanceParams{.cfg_scale = 3, .stg_scale = 1, .stg_blocks = stg_blocks, .modality_scale = 3, .rescale = 0.7};
  recipe.defaults.audio_guidance = recipe.defaults.video_guidance;
  recipe.defaults.audio_guidance->cfg_scale = 7;
  model.recipes = {recipe, distilled};
  return model;
}

// Examples of served models: three families, both kinds, one without a kind, and a tiny one.
inline std::vector<ModelDescription> Descriptions() {
  return {DescribeModel({}),
          DescribeModel({.kind = "distilled", .max_tokens = 0}),
          DescribeModel({.family = "ltx-2.0", .steps = 40, .min_size = 64}),
          DescribeModel({.kind = "", .max_width = 1536, .max_height = 1024, .max_frames = 257}),
          DescribeModel(Tiny()),
          DescribeModel({.family = "ltx-2.5"})};
}

}  // namespace kinora

#endif  // KINORA_TESTS_REQUEST_DESCRIPTIONS_H_
