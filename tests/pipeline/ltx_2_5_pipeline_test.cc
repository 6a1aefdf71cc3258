// Whole renders of models/tiny-2.5, whose parts are in separate files, against Lightricks' stages and samplers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/golden_renders.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::Combine;
using testing::HasSubstr;
using testing::ValuesIn;

constexpr const char* kCases[] = {"pipeline_2_5_one_stage", "pipeline_2_5_distilled_two_stage",
                                  "pipeline_2_5_distilled_image"};

class Ltx25Pipeline : public testing::TestWithParam<std::tuple<const char*, TestedBackend>> {};
INSTANTIATE_TEST_SUITE_P(On, Ltx25Pipeline, Combine(ValuesIn(kCases), ValuesIn(Backends())), [](const auto& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
});

TEST_P(Ltx25Pipeline, RenderEqualsTheReference) {
  const auto& [name, on] = GetParam();
  Golden golden(name);
  ClipRecorder clip;
  ASSERT_THAT(RenderOn(on, OptionsOf(golden, DType::kF32), *Mesh::Single(), RequestOf(golden), clip), IsOk());
  ExpectRender(clip, golden, FloatTolerances(on));
}

TEST(Ltx25Files, AreNamedWhenOneIsMissing) {
  const std::string model = KINORA_SOURCE_DIR "/models/tiny-2.5/";
  PipelineOptions options;
  options.files.paths = {model + "diffusion_models/ltx-2.5-tiny-transformer.safetensors",
                         model + "text_encoders/gemma4-tiny-with-proj-ltx-2.5.safetensors",
                         model + "vae/ltx-2.5-tiny-audio-vae.safetensors"};
  EXPECT_THAT(
      Pipeline::DescribeFiles(options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no video VAE; give its file with --model video_vae")));
  options.files.video_vae = model + "vae/ltx-2.5-tiny-video-vae-conv.safetensors";
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelDescription description, Pipeline::DescribeFiles(options));
  EXPECT_EQ(description.family, "ltx-2.5");
  EXPECT_EQ(description.blocks, 2);
}

}  // namespace
}  // namespace kinora
