// Clips decoded without tiles: pixels, plan, memory, and the error of a clip that does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/model/video_decoder.h"
#include "engine/pipeline/memory_plan.h"
#include "engine/pipeline/pipeline.h"
#include "engine/request/request_rules.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

ModelFiles TinyFiles() {
  const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
  ModelFiles files;
  files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  files.text_encoder = models + "gemma";
  return files;
}

PipelineOptions Tiny(bool untiled) {
  return {.files = TinyFiles(), .device = "cpu", .precision = DType::kF32, .untiled_decode = untiled};
}

// By default, two tiles of its 97 frames.
GenerationRequest LongClip() {
  GenerationRequest request{
      .prompt = "a boat", .width = 64, .height = 64, .num_frames = 97, .frame_rate = 60, .seed = 3};
  request.recipe = Recipe::kOneStage;
  request.sigmas = {1.0, 0.5, 0.0};
  return request;
}

ClipRecorder Rendered(bool untiled) {
  ClipRecorder clip;
  EXPECT_THAT(RenderOn(Cpu(), Tiny(untiled), *Mesh::Single(), LongClip(), clip), IsOk());
  return clip;
}

// Returns the decoder's frames for a whole latent [C, F', H', W'], in 0..1.
std::vector<float> DecodeWhole(const std::vector<float>& latent, const Shape& cells) {
  ModelRig rig(Cpu(), DType::kF32, nullptr, nullptr, 256 << 20);
  const ModelConfig config = ReadModelConfig(*Checkpoint::Open(TinyFiles()).value()).value();
  const VideoDecoder decoder = VideoDecoder::Load(rig.Open(TinyFiles()).Under("vae"), config.video_decoder).value();
  HostTensor z(DType::kF32, cells);
  const int64_t count = cells[0] * cells[1] * cells[2], channels = cells[3];
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < channels; ++c) z.f32()[i * channels + c] = latent[c * count + i];
  }
  const Tensor pixels = rig.Output(DType::kF32, decoder.OutputShape(cells));
  decoder.Forward(rig.exec, rig.Upload(z.tensor()), pixels);
  std::vector<float> frames(pixels.data<float>(), pixels.data<float>() + pixels.elements());
  for (float& value : frames) value = std::clamp((value + 1) / 2, 0.0f, 1.0f);
  return frames;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  KINORA_CHECK_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(UntiledDecode, ItsPixelsAreTheDecodersForTheWholeLatentAndThoseOfTilesAreNot) {
  ClipRecorder untiled = Rendered(true), tiled = Rendered(false);
  ASSERT_EQ(untiled.values_["video_latent"], tiled.values_["video_latent"]);
  const int64_t channels = static_cast<int64_t>(untiled.values_["video_latent"].size()) / (13 * 2 * 2);
  const std::vector<float> whole = DecodeWhole(untiled.values_["video_latent"], {13, 2, 2, channels});
  ASSERT_EQ(whole.size(), 97 * 64 * 64 * 3);
  EXPECT_LE(LargestDifference(untiled.frames_, whole), 1e-6);
  EXPECT_GE(LargestDifference(tiled.frames_, whole), 1e-3);
}

TEST(UntiledDecode, ThePlanHasOneTileLessWorkAndMoreMemory) {
  const auto mesh = Mesh::Single();
  for (const char* device : {"cpu", "cuda"}) {
    PipelineOptions options = Tiny(false), whole = Tiny(true);
    options.device = whole.device = device;
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan tiled, Pipeline::Plan(options, *mesh, LongClip()));
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan untiled, Pipeline::Plan(whole, *mesh, LongClip()));
    EXPECT_EQ(tiled.tiles.ToString(), "frames=80/24,height=64,width=64");
    EXPECT_EQ(untiled.tiles.ToString(), "untiled");
    EXPECT_FALSE(tiled.untiled_decode);
    EXPECT_TRUE(untiled.untiled_decode);
    EXPECT_EQ(tiled.Find("decode_video")->steps, 2);
    EXPECT_EQ(untiled.Find("decode_video")->steps, 1);
    EXPECT_EQ(untiled.Find("decode_video")->tokens, 13 * 2 * 2);
    EXPECT_GT(untiled.arena_bytes, tiled.arena_bytes) << device;
    EXPECT_LT(untiled.flops(), tiled.flops()) << device;
    EXPECT_EQ(untiled.Find("denoise")->cost.flops, tiled.Find("denoise")->cost.flops);
  }
}

TEST(UntiledDecode, AClipOfOneTileIsTheSame) {
  GenerationRequest brief = LongClip();
  brief.num_frames = 17;
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan tiled, Pipeline::Plan(Tiny(false), *Mesh::Single(), brief));
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan untiled, Pipeline::Plan(Tiny(true), *Mesh::Single(), brief));
  EXPECT_EQ(tiled.tiles.ToString(), "untiled");
  EXPECT_EQ(untiled.tiles.ToString(), "untiled");
  EXPECT_FALSE(untiled.untiled_decode);
  EXPECT_EQ(untiled.arena_bytes, tiled.arena_bytes);
}

TEST(UntiledDecode, AClipThatDoesNotFitWithoutTilesIsRejectedByTheFlagsName) {
  const auto mesh = Mesh::Single();
  PipelineOptions options = Tiny(true);
  options.arena_bytes = Pipeline::Plan(Tiny(false), *mesh, LongClip())->arena_bytes;
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options, *mesh));
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, pipeline->Prepare(LongClip()));
  ClipRecorder clip;
  EXPECT_THAT(pipeline->Generate(plan, &clip, nullptr),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::AllOf(HasSubstr("num_frames"), HasSubstr("--untiled-decode"))));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto nearest, pipeline->NearestThatFits(plan.request));
  ASSERT_TRUE(nearest);
  EXPECT_LT(nearest->num_frames, 97);
}

// Unified memory: a default clip that needs more than the machine has is rejected, not reserved.
TEST(UntiledDecode, NoMoreIsReservedThanThereIs) {
  const ModelConfig config = ReadModelConfig(*Checkpoint::Open(TinyFiles()).value()).value();
  KINORA_ASSERT_OK_AND_ASSIGN(const BackendTraits traits, TraitsOf("cpu", {}));
  const auto reserve = [&](bool untiled, int64_t spare) -> absl::StatusOr<ReservedMemory> {
    KINORA_ASSIGN_OR_RETURN(const DryModel model,
                            DryModel::Make(config, Describe(config, {.kind = "dev"}), *Mesh::Single(),
                                           {.traits = traits, .untiled_decode = untiled}));
    KINORA_ASSIGN_OR_RETURN(const GenerationRequest usual, ResolveRequest(model.description(), LongClip()));
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, model.Plan(usual, nullptr));
    return PlanMemory(model, {.bytes = (plan.device_bytes() - plan.arena_bytes + spare) / 3 * 4, .by = "a test"});
  };
  KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory tiled, reserve(false, 1 << 20));
  KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory untiled, reserve(true, 1 << 20));
  EXPECT_GT(tiled.arena_bytes, 1 << 20);  // the default request's
  EXPECT_LE(untiled.arena_bytes, 1 << 20);
  KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory none, reserve(true, -(int64_t{1} << 30)));
  EXPECT_EQ(none.arena_bytes, 0);
}

}  // namespace
}  // namespace kinora
