// Image, clip and retake conditions: whole renders against Lightricks' code, on meshes, and their cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "engine/base/status_macros.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/pipeline.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConditionedRender : public testing::TestWithParam<std::tuple<const char*, TestedBackend>> {};
INSTANTIATE_TEST_SUITE_P(
    Conditions, ConditionedRender,
    testing::Combine(testing::Values("pipeline_image", "pipeline_clip", "pipeline_two_stage_image",
                                     "pipeline_keyframes", "pipeline_retake", "pipeline_retake_keep_video",
                                     "pipeline_retake_keep_audio", "pipeline_hq_image", "pipeline_given_noise",
                                     "pipeline_x1_5_image", "pipeline_temporal_x2_image"),
                     testing::ValuesIn(Backends())),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name; });

TEST_P(ConditionedRender, EqualsTheReferenceInFloat32) {
  const auto& [name, on] = GetParam();
  Golden golden(name);
  ClipRecorder clip;
  ASSERT_THAT(RenderOn(on, OptionsOf(golden, DType::kF32), *Mesh::Single(), RequestOf(golden), clip), IsOk());
  ExpectRender(clip, golden, FloatTolerances(on));
}

TEST(Conditions, AreTheSamePixelsOnTokenAndGuidanceRanks) {
  for (const char* name : {"pipeline_image", "pipeline_keyframes", "pipeline_retake"}) {
    Golden golden(name);
    const PipelineOptions options = OptionsOf(golden, DType::kBF16);
    const GenerationRequest request = RequestOf(golden);
    ClipRecorder one(/*intermediates=*/false);
    ASSERT_THAT(RenderOn(Cpu(), options, *Mesh::Single(), request, one), IsOk());
    for (const MeshShape& shape : {MeshShape{.guidance = 2}, {.tokens = 2}, {.guidance = 2, .tokens = 2}}) {
      ClipRecorder clip(/*intermediates=*/false);
      ASSERT_THAT(
          RunThreadRanks(shape, [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, request, clip); }),
          IsOk())
          << shape.ToString();
      EXPECT_TRUE(clip.rgb8_ == one.rgb8_) << name << " " << shape.ToString();
      EXPECT_TRUE(clip.values_["waveform"] == one.values_["waveform"]) << name << " " << shape.ToString();
    }
  }
}

TEST(Conditions, TensorRanksEqualTheReference) {
  Golden golden("pipeline_keyframes");
  ClipRecorder clip;
  const auto render = [&](const Mesh& mesh) {
    return RenderOn(Cpu(), OptionsOf(golden, DType::kF32), mesh, RequestOf(golden), clip);
  };
  ASSERT_THAT(RunThreadRanks({.tensor = 2}, render), IsOk());
  ExpectRender(clip, golden, FloatTolerances(Cpu()));
}

PipelineOptions TinyModel() {
  const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
  PipelineOptions options;
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  return options;
}

GenerationRequest Request(int32_t frames, double frame_rate) {
  GenerationRequest request{
      .prompt = "a boat", .width = 256, .height = 192, .num_frames = frames, .frame_rate = frame_rate};
  request.recipe = Recipe::kOneStage;
  return request;
}

ConditionInput Image(int32_t frame) {
  return {.media = ConditionInput::Media::kImage, .pixels = std::make_shared<PixelClip>(), .frame = frame};
}

std::vector<std::string> LabelsOf(const RunPlan& plan) {
  std::vector<std::string> labels;
  for (const StagePlan& stage : plan.stages) labels.emplace_back(stage.stage().name());
  return labels;
}

TEST(Conditions, AddNoWorkBeyondTheirTokens) {
  const auto plan = [](const GenerationRequest& request) {
    return *Pipeline::Plan(TinyModel(), *Mesh::Single(), request);
  };
  const double rate = 24.0;
  GenerationRequest guided = Request(81, rate);
  const RunPlan bare = plan(guided);
  guided.conditions = {Image(40)};
  const RunPlan appended = plan(guided);
  guided.conditions = {Image(0)};
  const RunPlan replaced = plan(guided);
  const RunPlan longer = plan(Request(89, rate * 89 / 81));  // as many tokens (one more latent frame), as much sound
  EXPECT_THAT(LabelsOf(bare), ElementsAre("encode", "denoise", "decode_video", "decode_audio"));
  EXPECT_THAT(LabelsOf(appended), ElementsAre("encode", "encode_inputs", "denoise", "decode_video", "decode_audio"));
  const auto denoising = [](const RunPlan& p) { return *p.Find("denoise"); };
  EXPECT_EQ(denoising(appended).tokens, denoising(longer).tokens);
  EXPECT_EQ(denoising(replaced).tokens, denoising(bare).tokens);
  // Conditions add separate noise levels for some tokens and the blend of a step's prediction.
  for (const auto& [with, without] : {std::pair(&appended, &longer), {&replaced, &bare}}) {
    const StageCost a = denoising(*with).cost, b = denoising(*without).cost;
    EXPECT_NEAR(a.flops / b.flops, 1, 0.002);
    EXPECT_NEAR(static_cast<double>(a.bytes) / static_cast<double>(b.bytes), 1, 0.01);
    EXPECT_LE(a.launches - b.launches, 3 * denoising(*with).steps);
  }
  EXPECT_EQ(appended.Find("decode_video")->cost.flops, bare.Find("decode_video")->cost.flops);
  EXPECT_EQ(appended.Find("encode_inputs")->tokens, 8 * 6);
  EXPECT_GT(appended.Find("encode_inputs")->cost.flops, 0);
  EXPECT_EQ(appended.stages[appended.audio_stage].stage().name(), "denoise");
}

double EncodingFlops(const GenerationRequest& request, int ranks, int rank) {
  const auto mesh = *MakeDryMesh({.tokens = ranks}, rank);
  return Pipeline::Plan(TinyModel(), *mesh, request)->Find("encode_inputs")->cost.flops;
}

TEST(Conditions, AreSharedByTheRanksTileForTile) {
  GenerationRequest request = Request(17, 24);
  request.conditions = {Image(0), Image(8), Image(9)};
  const double three = EncodingFlops(request, 1, 0);
  for (const auto& [ranks, shares] : std::map<int, std::vector<int>>{{2, {2, 1}}, {4, {1, 1, 1, 0}}}) {
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_NEAR(EncodingFlops(request, ranks, rank) / three, shares[rank] / 3.0, 1e-3) << ranks << " " << rank;
    }
  }
  request = Request(353, 24);  // tiles of eleven latent frames, the first of ten
  request.retake = RetakeInput{.end_seconds = 1};
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, Pipeline::Plan(TinyModel(), *Mesh::Single(), request));
  EXPECT_EQ(plan.Find("encode_inputs")->steps, 6);
  const double all = EncodingFlops(request, 1, 0);
  double sum = 0;
  for (const int rank : {0, 1}) {
    const double share = EncodingFlops(request, 2, rank);
    EXPECT_LT(share, 0.52 * all) << rank;
    sum += share;
  }
  EXPECT_NEAR(sum / all, 1, 0.01);
}

TEST(Conditions, ThatNobodyReadAreRefusedBeforeAnythingIsComputedOfThem) {
  Golden golden("pipeline_image");
  GenerationRequest request = RequestOf(golden);
  request.conditions[0].pixels = std::make_shared<PixelClip>();
  ClipRecorder clip(false);
  EXPECT_THAT(RenderOn(Cpu(), OptionsOf(golden, DType::kBF16), *Mesh::Single(), request, clip),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("conditions")));
}

TEST(Conditions, NeedAModelWithAnEncoder) {
  Golden without("pipeline_2_0"), with("pipeline_image");  // the same model file contains no such weights
  GenerationRequest request = RequestOf(without);
  request.conditions = RequestOf(with).conditions;
  EXPECT_THAT(Pipeline::Plan(OptionsOf(without, DType::kBF16), *Mesh::Single(), request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("conditions: this model was loaded without")));
  PipelineOptions options = OptionsOf(with, DType::kBF16);
  const int64_t whole = Pipeline::Plan(options, *Mesh::Single(), RequestOf(without))->weight_bytes;
  options.inputs = false;
  EXPECT_LT(Pipeline::Plan(options, *Mesh::Single(), RequestOf(without))->weight_bytes, whole);
  EXPECT_THAT(Pipeline::Plan(options, *Mesh::Single(), RequestOf(with)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("conditions")));
}

// As in the reference, regardless of size.
TEST(Conditions, PicturesAreEncodedWholeAndClipsInTiles) {
  GenerationRequest request{.prompt = "a boat", .width = 1280, .height = 704, .num_frames = 121, .seed = 1};
  request.conditions = {{.media = ConditionInput::Media::kImage, .input_id = "a", .frame = 8}};
  PipelineOptions options{.released = "ltx-2.3-22b", .device = "cpu"};
  const auto tiles = [&](int64_t frames) {
    request.conditions[0].pixels = std::make_shared<PixelClip>(PixelClip{.frames = frames});
    const absl::StatusOr<RunPlan> plan = Pipeline::Plan(options, *Mesh::Single(), request);
    return plan.ok() ? plan->Find("encode_inputs")->steps : -1;
  };
  EXPECT_EQ(tiles(1), 1);
  request.conditions[0].media = ConditionInput::Media::kClip;
  EXPECT_EQ(tiles(9), 2);
}

// Shorter clips are found too, although they end before the picture's frame.
TEST(Conditions, OfARequestBeyondTheMemoryAreNoHindranceToTheNearestThatFits) {
  Golden golden("pipeline_image");
  PipelineOptions options = OptionsOf(golden, DType::kBF16);
  GenerationRequest request = RequestOf(golden);
  const auto mesh = Mesh::Single();
  options.arena_bytes = 3 * Pipeline::Plan(options, *mesh, request)->arena_bytes;
  request.num_frames = 161;
  request.conditions[1].frame = 160;
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options, *mesh));
  ClipRecorder clip(false);
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, pipeline->Prepare(request));
  EXPECT_THAT(pipeline->Generate(plan, &clip, nullptr),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("nearest: 96x64 with")));
}

using Floats = std::vector<float>;

// Returns the latents of the golden's retake, with its request modified by `change`.
std::map<std::string, Floats> Latents(Golden& golden, const std::function<void(GenerationRequest&)>& change) {
  GenerationRequest request = RequestOf(golden);
  change(request);
  ClipRecorder clip;
  EXPECT_THAT(RenderOn(Cpu(), OptionsOf(golden, DType::kF32), *Mesh::Single(), request, clip), IsOk());
  return std::move(clip.values_);
}

// Compares [1, channels, frames, height, width] frame by frame.
std::vector<bool> SameFrames(const Floats& a, int64_t a_frames, const Floats& b, int64_t b_frames) {
  constexpr int64_t kChannels = 16, kCells = 2 * 3;
  std::vector<bool> same;
  for (int64_t f = 0; f < std::min(a_frames, b_frames); ++f) {
    bool all = true;
    for (int64_t c = 0; c < kChannels; ++c) {
      const auto of_a = a.begin() + (c * a_frames + f) * kCells, of_b = b.begin() + (c * b_frames + f) * kCells;
      all = all && std::equal(of_a, of_a + kCells, of_b);
    }
    same.push_back(all);
  }
  return same;
}

TEST(Retake, LeavesTheLatentsOutsideItsWindowAsTheEncoderMadeThem) {
  Golden golden("pipeline_retake");
  const auto kept = Latents(golden, [](auto& r) { r.retake->keep_video = true; });
  const auto anew = Latents(golden, [](auto& r) {
    r.retake->start_seconds = 0.4;  // frame 9.6 of 17, at 24 fps
    r.retake->end_seconds = 0.6;
  });
  EXPECT_THAT(SameFrames(kept.at("video_latent"), 3, anew.at("video_latent"), 3), ElementsAre(true, true, false));
  EXPECT_NE(kept.at("audio_latent"), anew.at("audio_latent"));
  const auto other_seed = Latents(golden, [](auto& r) { r.seed += 1, r.retake->keep_audio = true; });
  const auto same_seed = Latents(golden, [](auto& r) { r.retake->keep_audio = true; });
  EXPECT_EQ(other_seed.at("audio_latent"), same_seed.at("audio_latent"));
  EXPECT_NE(other_seed.at("video_latent"), same_seed.at("video_latent"));
}

TEST(Retake, WhatIsKeptTakesNoPassOfItsOwn) {
  Golden golden("pipeline_retake_keep_audio");
  const auto passes = [&](const std::function<void(GenerationRequest&)>& change) {
    GenerationRequest request = RequestOf(golden);
    change(request);
    const auto plan = Pipeline::Plan(OptionsOf(golden, DType::kF32), *Mesh::Single(), request);
    return plan.ok() ? plan->Find("denoise")->passes : PassList{};
  };
  EXPECT_THAT(passes([](auto&) {}), ElementsAre(Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated));
  EXPECT_THAT(passes([](auto& r) { r.video_guidance = GuidanceParams{.cfg_scale = 3}; }),
              ElementsAre(Pass::kUncond, Pass::kCond));
}

// The goldens show that the kept modality is perturbed; this test shows that it can be left unperturbed.
TEST(Retake, PerturbsWhatIsKeptUnlessItsScaleIsZero) {
  Golden golden("pipeline_retake_keep_audio");
  const auto perturbed = Latents(golden, [](auto&) {});
  EXPECT_EQ(perturbed, Latents(golden, [](auto& r) { r.audio_guidance->stg_scale = 2; }));  // only 0 disables the pass
  EXPECT_NE(perturbed.at("video_latent"),
            Latents(golden, [](auto& r) { r.audio_guidance->stg_scale = 0; }).at("video_latent"));
}

TEST(Retake, AWindowPastTheEndMakesTheClipLonger) {
  Golden golden("pipeline_retake");
  const auto kept = Latents(golden, [](auto& r) { r.retake->keep_video = true; });
  const auto longer = Latents(golden, [](auto& r) {
    r.num_frames = 33;
    r.retake->start_seconds = 17 / 24.0;
    r.retake->end_seconds = 33 / 24.0;
  });
  EXPECT_THAT(SameFrames(kept.at("video_latent"), 3, longer.at("video_latent"), 5), ElementsAre(true, true, true));
}

TEST(Retake, AClipWithoutSoundGetsAWholeNewOne) {
  Golden golden("pipeline_retake");
  const auto made = Latents(golden, [](auto& r) { r.retake->audio = nullptr; });
  EXPECT_NE(made.at("audio_latent"), Latents(golden, [](auto&) {}).at("audio_latent"));
}

}  // namespace
}  // namespace kinora
