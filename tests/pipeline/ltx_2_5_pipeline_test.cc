// Whole renders of models/tiny-2.5, whose parts are in separate files, against Lightricks' stages and samplers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/diffusion/noise.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/golden.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::Combine;
using testing::HasSubstr;
using testing::ValuesIn;

constexpr const char* kCases[] = {
    "pipeline_2_5_one_stage", "pipeline_2_5_distilled_two_stage", "pipeline_2_5_distilled_image",
    "pipeline_2_5_hq_image",  "pipeline_2_5_keyframes",           "pipeline_2_5_retake",
    "pipeline_2_5_sound",     "pipeline_2_5_sound_alone",         "pipeline_2_5_diffusion_decoder"};

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

// A pipeline that has room for the longest clip within the default bounds, and its plan.
struct OpenRun {
  std::unique_ptr<Pipeline> pipeline;
  RunPlan plan;
};

absl::StatusOr<OpenRun> Opened(const TestedBackend& on, const Mesh& mesh, Golden&& golden) {
  const BackendOptions backend_options{.threads = 2};
  PipelineOptions options = OptionsOf(golden, DType::kF32);
  GenerationRequest request = RequestOf(golden);
  request.num_frames = 0;
  request.auto_length = AutoLength{};
  KINORA_ASSIGN_OR_RETURN(const RunPlan cost, Pipeline::PlanOn(on.traits(backend_options), options, mesh, request));
  options.arena_bytes = cost.arena_bytes;
  options.host_arena_bytes = cost.host_arena_bytes;
  OpenRun run;
  KINORA_ASSIGN_OR_RETURN(auto backend, on.open(backend_options));
  KINORA_ASSIGN_OR_RETURN(run.pipeline, Pipeline::LoadOn(std::move(backend), options, mesh));
  KINORA_ASSIGN_OR_RETURN(run.plan, run.pipeline->Prepare(request));
  EXPECT_EQ(run.plan.request.num_frames, 473) << "20 seconds at 24 frames per second";
  return run;
}

// The length of the golden's prompt in microseconds, as this rank knows it.
absl::StatusOr<int32_t> MicrosecondsOn(const TestedBackend& on, const Mesh& mesh, Golden&& golden) {
  KINORA_ASSIGN_OR_RETURN(OpenRun run, Opened(on, mesh, std::move(golden)));
  run.plan.open_length = LengthLimits{.frame_rate = 1e6, .min_seconds = 0, .time_factor = 1};
  return run.pipeline->ChooseFrames(run.plan, nullptr);
}

class Ltx25Length : public testing::TestWithParam<TestedBackend> {};
INSTANTIATE_TEST_SUITE_P(On, Ltx25Length, ValuesIn(Backends()), [](const auto& info) { return info.param.name; });

TEST_P(Ltx25Length, EqualsTheReferenceOnEveryRank) {
  const double expected = *Golden("pipeline_2_5_length").Get("out.seconds").data<float>();
  // Ranks that are threads need CPU streams (thread_communicator.h).
  std::vector<MeshShape> shapes = {{}, {.tokens = 2}, {.guidance = 2, .tensor = 2}};
  if (std::string_view(GetParam().name) == "cuda") shapes.resize(1);
  for (const MeshShape& shape : shapes) {
    const std::vector<int32_t> microseconds = RunRanks<int32_t>(
        shape, [](const Mesh& mesh) { return MicrosecondsOn(GetParam(), mesh, Golden("pipeline_2_5_length")); });
    const double tolerance = Tolerance(GetParam(), DType::kF32) * expected + 1e-6;
    for (const int32_t chosen : microseconds) EXPECT_NEAR(chosen / 1e6, expected, tolerance) << shape.ToString();
  }
}

TEST_P(Ltx25Length, ChosenMakesTheClipOfThatLength) {
  for (const char* name : {"pipeline_2_5_distilled_two_stage", "pipeline_2_5_sound_alone"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const int32_t microseconds, MicrosecondsOn(GetParam(), *Mesh::Single(), Golden(name)));
    Golden golden(name);
    GenerationRequest request = RequestOf(golden);
    request.num_frames = 0;
    request.frame_rate = 120;
    request.auto_length = AutoLength{.min_seconds = 0};
    const auto frames = static_cast<int32_t>(
        FramesFromSeconds(microseconds / 1e6, {.frame_rate = request.frame_rate, .min_seconds = 0}));
    EXPECT_GT(frames, 9) << name;
    ClipRecorder chosen, given;
    const PipelineOptions options = OptionsOf(golden, DType::kF32);
    ASSERT_THAT(RenderOn(GetParam(), options, *Mesh::Single(), request, chosen), IsOk());
    ASSERT_THAT(RenderOn(GetParam(), options, *Mesh::Single(), WithFrames(request, frames), given), IsOk());
    EXPECT_EQ(chosen.info_.num_frames, request.audio_only ? 0 : frames);
    EXPECT_EQ(chosen.rgb8_, given.rgb8_);
    EXPECT_EQ(chosen.values_, given.values_);
  }
}

TEST(Ltx25LengthOnRanks, ACancelledChoiceEndsOnAllRanksWhichCanGoOn) {
  const auto cancelled = [](const Progress&) { return absl::CancelledError("enough"); };
  const std::vector<int32_t> frames =
      RunRanks<int32_t>({.tokens = 2}, [&](const Mesh& mesh) -> absl::StatusOr<int32_t> {
        KINORA_ASSIGN_OR_RETURN(OpenRun run, Opened(Cpu(), mesh, Golden("pipeline_2_5_length")));
        ProgressObserver observer(cancelled);
        EXPECT_THAT(run.pipeline->ChooseFrames(run.plan, &observer), StatusIs(absl::StatusCode::kCancelled));
        return run.pipeline->ChooseFrames(run.plan, nullptr);
      });
  EXPECT_THAT(frames, testing::Each(25)) << "at least one second";
}

// Noise that is given for the decoder alone leaves the latents as they are.
TEST(Ltx25DecoderNoise, TakesThePlaceOfTheSeedsDraw) {
  Golden golden("pipeline_2_5_diffusion_decoder");
  const PipelineOptions options = OptionsOf(golden, DType::kF32);
  const auto rendered = [&](const GenerationRequest& request) {
    ClipRecorder clip;
    EXPECT_THAT(RenderOn(Cpu(), options, *Mesh::Single(), request, clip), IsOk());
    return clip;
  };
  GenerationRequest request = RequestOf(golden);
  const ClipRecorder drawn = rendered(request);
  NoiseSource source(request.seed);
  std::vector<float> video(8 * 2 * 1 * 2), audio(8 * 9 * 16), decoder(3 * 17 * 96 * 96);
  for (std::vector<float>* draw : {&video, &audio, &decoder}) source.Fill(absl::MakeSpan(*draw));
  request.noise.draws["decoder_noise"] = {.shape = {1, 3, 17, 96, 96}, .values = decoder};
  EXPECT_EQ(rendered(request).frames_, drawn.frames_);
  for (float& value : request.noise.draws["decoder_noise"].values) value = -value;
  const ClipRecorder other = rendered(request);
  EXPECT_NE(other.frames_, drawn.frames_);
  EXPECT_EQ(other.values_, drawn.values_);
  request.noise.draws["decoder_noise"] = {.shape = {1, 3, 9, 32, 64}, .values = std::vector<float>(3 * 9 * 32 * 64)};
  EXPECT_THAT(Pipeline::Plan(options, *Mesh::Single(), request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("decoder_noise: shape [1, 3, 9, 32, 64], but this request needs [1, 3, 17, 96, 96]")));
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
