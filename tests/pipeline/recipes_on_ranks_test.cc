// Two-stage recipes, including HQ, and every recipe of LTX-2.5 on several ranks. The second stage splits tokens over
// guidance ranks; the upsampler runs between the stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/pipeline/pipeline.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

class RecipeOnRanks : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Recipes, RecipeOnRanks,
                         testing::Values("pipeline_two_stage", "pipeline_distilled_two_stage", "pipeline_hq",
                                         "pipeline_hq_image", "pipeline_x1_5_image", "pipeline_temporal_x2_image",
                                         "pipeline_2_5_one_stage", "pipeline_2_5_distilled_two_stage",
                                         "pipeline_2_5_distilled_image", "pipeline_2_5_hq_image",
                                         "pipeline_2_5_keyframes", "pipeline_2_5_retake", "pipeline_2_5_sound",
                                         "pipeline_2_5_sound_alone"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RecipeOnRanks, OfTokensAndGuidanceAllIsTheSameToTheBit) {
  Golden golden(GetParam());
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  const GenerationRequest request = RequestOf(golden);
  ClipRecorder one;
  ASSERT_THAT(RenderOn(Cpu(), options, *Mesh::Single(), request, one), IsOk());
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2}, {.guidance = 2, .tokens = 2}}) {
    ClipRecorder clip;
    const auto render = [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, request, clip); };
    ASSERT_THAT(RunThreadRanks(shape, render), IsOk()) << shape.ToString();
    EXPECT_TRUE(clip.rgb8_ == one.rgb8_) << shape.ToString();
    EXPECT_TRUE(clip.frames_ == one.frames_) << shape.ToString();
    EXPECT_EQ(clip.values_.size(), one.values_.size());
    for (const auto& [name, values] : one.values_) {
      EXPECT_TRUE(clip.values_[name] == values) << name << " " << shape.ToString();
    }
  }
}

TEST_P(RecipeOnRanks, OfTensorsEqualsTheReferenceInFloat32) {
  Golden golden(GetParam());
  const PipelineOptions options = OptionsOf(golden, DType::kF32);
  ClipRecorder clip;
  const auto render = [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, RequestOf(golden), clip); };
  ASSERT_THAT(RunThreadRanks({.tensor = 2}, render), IsOk());
  ExpectRender(clip, golden, FloatTolerances(Cpu()));
}

}  // namespace
}  // namespace kinora
