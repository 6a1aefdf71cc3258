// LoRAs that change between requests on one loaded model. pipeline_test.cc compares a render with LoRAs with the
// reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/weights/safetensors.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The golden's request with one step, which is enough to show a LoRA's effect.
GenerationRequest Request() {
  Golden golden("pipeline_lora");
  GenerationRequest request = RequestOf(golden);
  request.sigmas = {1.0, 0.0};
  return request;
}

class LoraRenders : public testing::Test {
 protected:
  LoraRenders() : options_(OptionsOf(Golden("pipeline_lora"), DType::kF32)) {
    options_.arena_bytes = Pipeline::Plan(options_, *mesh_, Request())->arena_bytes;
  }
  static absl::Status Generate(Pipeline& pipeline, const GenerationRequest& request, ClipRecorder& clip) {
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
    return pipeline.Generate(plan, &clip, &clip);
  }

  std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  PipelineOptions options_;
};

TEST_F(LoraRenders, TheyGoOnAndOffBetweenRequestsAndLeaveNothingBehind) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    options_.precision = precision;
    KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options_, *mesh_));
    GenerationRequest with = Request(), without = with, zero = with;
    without.loras.clear();
    for (LoraInput& lora : zero.loras) lora.strength = 0;
    ClipRecorder plain(false), changed(false), again(false), none(false);
    ASSERT_THAT(Generate(*pipeline, without, plain), IsOk());
    ASSERT_THAT(Generate(*pipeline, with, changed), IsOk());
    ASSERT_THAT(Generate(*pipeline, without, again), IsOk());
    ASSERT_THAT(Generate(*pipeline, zero, none), IsOk());
    EXPECT_FALSE(changed.rgb8_ == plain.rgb8_);
    EXPECT_FALSE(changed.values_["waveform"] == plain.values_["waveform"]);
    EXPECT_TRUE(again.rgb8_ == plain.rgb8_);
    EXPECT_TRUE(again.values_["waveform"] == plain.values_["waveform"]);
    EXPECT_TRUE(none.rgb8_ == plain.rgb8_);
  }
}

// A cached context of a prompt without the LoRA is not used with the LoRA, because its text layers change the context.
TEST_F(LoraRenders, APromptIsEncodedAnewForALoraOfTheTextLayers) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options_, *mesh_));
  GenerationRequest style = Request(), detail = style, plain = style;
  style.loras = {{.id = "tiny-style"}};
  detail.loras = {{.id = "tiny-detail"}};
  plain.loras.clear();
  ClipRecorder without, other_layers, text_layers;
  ASSERT_THAT(Generate(*pipeline, plain, without), IsOk());
  ASSERT_THAT(Generate(*pipeline, style, other_layers), IsOk());
  ASSERT_THAT(Generate(*pipeline, detail, text_layers), IsOk());
  EXPECT_EQ(other_layers.values_["video_context"], without.values_["video_context"]);
  EXPECT_NE(text_layers.values_["video_context"], without.values_["video_context"]);
  EXPECT_NE(text_layers.values_["audio_context"], without.values_["audio_context"]);
}

// A text layer lies on one rank; the transformer's weights are split by rows or columns, or are whole.
TEST_F(LoraRenders, EveryMeshPutsOnWhatOneRankDoes) {
  ClipRecorder one;
  ASSERT_THAT(RenderOn(Cpu(), options_, *mesh_, Request(), one), IsOk());
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2}, {.tensor = 2}}) {
    ClipRecorder clip;
    const absl::Status status =
        RunThreadRanks(shape, [&](const Mesh& mesh) { return RenderOn(Cpu(), options_, mesh, Request(), clip); });
    ASSERT_TRUE(status.ok()) << shape.ToString() << ": " << status.ToString();
    for (const char* name : {"video_latent", "audio_latent"}) {
      std::vector<float>& expected = one.values_[name];
      const Tensor view(DType::kF32, {static_cast<int64_t>(expected.size())}, expected.data());
      EXPECT_TRUE(Near(clip.values_[name], view, shape.tensor > 1 ? 1e-5 : 0)) << shape.ToString();
    }
  }
}

TEST_F(LoraRenders, AnIdThatTheModelLacksIsRefusedAndTheOthersAreNamed) {
  GenerationRequest request = Request();
  request.loras[1].id = "tiny-other";
  EXPECT_THAT(Pipeline::Plan(options_, *mesh_, request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("loras[1].id: tiny-other is not one of this model's LoRAs, which are tiny-detail, "
                                 "tiny-style")));
  options_.files.loras.clear();
  EXPECT_THAT(Pipeline::Plan(options_, *mesh_, request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("this model was loaded without LoRAs")));
}

// The list of LoRAs changes while the model is loaded. A plan keeps the files with which it was made.
TEST_F(LoraRenders, AnIdIsAnotherFileFromOneRequestToTheNextAndAJobOfTheOldOneIsRefused) {
  const std::string style = options_.files.loras[0].path, detail = options_.files.loras[1].path;
  ClipRecorder expected(false);
  GenerationRequest request = Request();
  request.loras = {{.id = "one"}};
  options_.files.loras = {{"one", detail}};
  ASSERT_THAT(RenderOn(Cpu(), options_, *mesh_, request, expected), IsOk());
  options_.files.loras.clear();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options_, *mesh_));
  EXPECT_THAT(pipeline->Prepare(request), StatusIs(absl::StatusCode::kInvalidArgument));
  const auto list = [&](const std::string& path, const std::string& digest) {
    pipeline->SetLoras({{"one", *pipeline->OpenLora(*SafetensorsFile::Open(path), {.digest = digest})}});
  };
  const std::string digits(64, 'a');
  list(style, "sha256:" + digits);
  EXPECT_THAT(pipeline->description().loras, testing::ElementsAre("one"));
  request.loras[0].digest = "sha256:" + digits;
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan earlier, pipeline->Prepare(request));
  list(detail, "sha256:" + std::string(64, 'b'));
  EXPECT_THAT(pipeline->Prepare(request).status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                            HasSubstr("loras[0].digest: the file of one is sha256:b")));
  ClipRecorder old(false), now(false);
  EXPECT_THAT(pipeline->Generate(earlier, &old, &old), IsOk());
  request.loras[0].digest.clear();
  ASSERT_THAT(Generate(*pipeline, request, now), IsOk());
  EXPECT_FALSE(old.rgb8_ == now.rgb8_);
  EXPECT_TRUE(now.rgb8_ == expected.rgb8_);
  pipeline->SetLoras({});
  request.loras[0].digest = "sha256:" + digits;
  EXPECT_THAT(pipeline->Prepare(request).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("loras[0].id: one is not here any more")));
}

// Each swap is a measured stage. There is none if the weights already have the requested LoRAs.
TEST_F(LoraRenders, ASwapIsToldAndMeasuredAndReadsItsFilesOnce) {
  options_.lora_cache = std::make_shared<FactorCache>(int64_t{1} << 30);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options_, *mesh_));
  GenerationRequest with = Request(), without = with;
  without.loras.clear();
  const auto swaps = [&](const GenerationRequest& request) {
    ClipRecorder clip(false);
    EXPECT_THAT(Generate(*pipeline, request, clip), IsOk());
    return std::count_if(pipeline->last_run().begin(), pipeline->last_run().end(),
                         [](const StageUse& use) { return use.stage == kPutOnLoras && use.seconds > 0; });
  };
  EXPECT_EQ(swaps(without), 0);
  EXPECT_EQ(swaps(with), 1);
  EXPECT_EQ(swaps(with), 0);
  EXPECT_EQ(options_.lora_cache->counts().misses, 2);
  EXPECT_EQ(swaps(without), 1);
  EXPECT_EQ(swaps(with), 1);
  EXPECT_EQ(options_.lora_cache->counts().misses, 2);
  EXPECT_EQ(options_.lora_cache->counts().hits, 2);
}

TEST_F(LoraRenders, AProductThatIsNotFiniteEndsTheRunByNameAndTheNextOneIsWhole) {
  TemporaryDirectory folder;
  const auto lora = *SafetensorsFile::Open(options_.files.loras[0].path);
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::vector<std::vector<uint16_t>> values;
  values.reserve(lora->tensors().size());
  for (const TensorInfo& tensor : lora->tensors()) {
    auto& own = values.emplace_back(tensor.bytes / 2);
    ASSERT_THAT(lora->Read(tensor, 0, tensor.bytes, own.data()), IsOk());
    if (tensor.name.find("attn1.to_q.lora_A") != std::string::npos) own[3] = 0x7f80;  // infinity
    tensors.emplace_back(tensor.name, Tensor(tensor.dtype, tensor.shape, own.data()));
  }
  options_.files.loras.push_back({"broken", folder.File("broken.safetensors")});
  ASSERT_THAT(WriteSafetensors(options_.files.loras.back().path, tensors), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options_, *mesh_));
  GenerationRequest broken = Request(), plain = Request();
  broken.loras = {{.id = "broken"}};
  plain.loras.clear();
  ClipRecorder before(false), failed(false), after(false);
  ASSERT_THAT(Generate(*pipeline, plain, before), IsOk());
  EXPECT_THAT(Generate(*pipeline, broken, failed),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(StartsWith("loras: with broken:1 the weight "),
                                      HasSubstr("to_q.weight holds NaN or infinity with its delta; lower"),
                                      testing::Not(HasSubstr("/")))));
  ASSERT_THAT(Generate(*pipeline, plain, after), IsOk());
  EXPECT_TRUE(after.rgb8_ == before.rgb8_);
}

}  // namespace
}  // namespace kinora
