// Whole renders against the references, and the pipeline's guarantees about memory, ranks and cancellation.
#include "engine/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Floats = std::vector<float>;

// The calls that a user of a loaded pipeline makes for each request.
absl::Status Generate(Pipeline& pipeline, const GenerationRequest& request, ClipRecorder& sink) {
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
  return pipeline.Generate(plan, &sink, &sink);
}

class WholeRender : public testing::TestWithParam<std::tuple<const char*, TestedBackend>> {};
INSTANTIATE_TEST_SUITE_P(
    Pipeline, WholeRender,
    testing::Combine(testing::Values("pipeline_one_stage", "pipeline_distilled", "pipeline_2_0", "pipeline_lora",
                                     "pipeline_two_stage", "pipeline_distilled_two_stage", "pipeline_hq",
                                     "pipeline_x1_5", "pipeline_temporal_x2", "pipeline_sound",
                                     "pipeline_sound_two_stage", "pipeline_sound_alone"),
                     testing::ValuesIn(Backends())),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name; });

TEST_P(WholeRender, EqualsTheReferenceInFloat32) {
  const auto& [name, on] = GetParam();
  Golden golden(name);
  ClipRecorder clip;
  ASSERT_THAT(RenderOn(on, OptionsOf(golden, DType::kF32), *Mesh::Single(), RequestOf(golden), clip), IsOk());
  ExpectRender(clip, golden, FloatTolerances(on));
}

TEST(Pipeline, RendersTheSamePixelsOnGuidanceAndTokenRanks) {
  Golden golden("pipeline_one_stage");
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  ClipRecorder one(/*intermediates=*/false);
  ASSERT_TRUE(RenderOn(Cpu(), options, *Mesh::Single(), RequestOf(golden), one).ok());
  for (const MeshShape& shape : {MeshShape{.guidance = 2}, {.tokens = 2}, {.guidance = 2, .tokens = 2}}) {
    ClipRecorder clip(/*intermediates=*/false);
    const absl::Status status = RunThreadRanks(
        shape, [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, RequestOf(golden), clip); });
    ASSERT_TRUE(status.ok()) << shape.ToString() << ": " << status.ToString();
    EXPECT_TRUE(clip.rgb8_ == one.rgb8_) << shape.ToString();
    EXPECT_TRUE(clip.values_["waveform"] == one.values_["waveform"]) << shape.ToString();
  }
}

// With one pass, two and four guidance ranks have nothing to split and split tokens instead.
TEST(Pipeline, ARenderOfOnePassFoldsGuidanceIntoTokensToTheSamePixels) {
  Golden golden("pipeline_distilled");
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  ClipRecorder one(/*intermediates=*/false);
  ASSERT_THAT(RenderOn(Cpu(), options, *Mesh::Single(), RequestOf(golden), one), IsOk());
  for (const MeshShape& shape : {MeshShape{.guidance = 2}, {.guidance = 4}, {.guidance = 2, .tokens = 2}}) {
    ClipRecorder clip(/*intermediates=*/false);
    const absl::Status status = RunThreadRanks(shape, [&](const Mesh& mesh) {
      const absl::Status rendered = RenderOn(Cpu(), options, mesh, RequestOf(golden), clip);
      int64_t own = 0, exchanges = 0;
      for (const CollectiveCount& count : mesh.guidance().counts()) own += count.calls;
      for (const CollectiveCount& count : mesh.Counts(MeshAxis::kTokens)) exchanges += count.calls;
      EXPECT_EQ(own, 0) << shape.ToString();
      EXPECT_GT(exchanges, 0) << shape.ToString();
      for (const CollectiveCount& count : mesh.tokens().counts()) EXPECT_EQ(count.calls, 0) << shape.ToString();
      return rendered;
    });
    ASSERT_TRUE(status.ok()) << shape.ToString() << ": " << status.ToString();
    EXPECT_TRUE(clip.rgb8_ == one.rgb8_) << shape.ToString();
    EXPECT_TRUE(clip.values_["waveform"] == one.values_["waveform"]) << shape.ToString();
  }
}

// With this many tokens, the passes around the perturbed one attend separately, so that no unused pass is computed.
TEST(Pipeline, APerturbedPassBetweenOthersIsTheSameOnTokenRanks) {
  Golden golden("pipeline_one_stage");
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  GenerationRequest request = RequestOf(golden);
  request.sigmas = {1.0, 0.0};
  request.width = request.height = 256;
  request.num_frames = 65;
  ClipRecorder one(/*intermediates=*/false), two(/*intermediates=*/false);
  ASSERT_THAT(RenderOn(Cpu(), options, *Mesh::Single(), request, one), IsOk());
  const RunPlan plan = *Pipeline::Plan(options, *Mesh::Single(), request);
  ASSERT_EQ(plan.stages[plan.audio_stage].passes.size(), 4);
  ASSERT_GT(plan.stages[plan.audio_stage].grid.tokens(), 512);
  const absl::Status status =
      RunThreadRanks({.tokens = 2}, [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, request, two); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(two.rgb8_ == one.rgb8_);
  EXPECT_TRUE(two.values_["waveform"] == one.values_["waveform"]);
}

TEST(Pipeline, TwoRunsOfOnePipelineAreEqualAndAnotherSeedIsNot) {
  Golden golden("pipeline_distilled");
  PipelineOptions options = OptionsOf(golden, DType::kBF16);
  GenerationRequest request = RequestOf(golden);
  options.arena_bytes = Pipeline::Plan(options, *Mesh::Single(), request)->arena_bytes;
  const auto mesh = Mesh::Single();
  const auto pipeline = *Pipeline::Load(options, *mesh);
  ClipRecorder first(false), second(false), other(false);
  ASSERT_TRUE(Generate(*pipeline, request, first).ok());
  ASSERT_TRUE(Generate(*pipeline, request, second).ok());
  request.seed += 1;
  ASSERT_TRUE(Generate(*pipeline, request, other).ok());
  EXPECT_TRUE(first.rgb8_ == second.rgb8_);
  EXPECT_FALSE(first.rgb8_ == other.rgb8_);
}

TEST(Pipeline, CancelsAtTheNextStepOnEveryRankAndCanBeUsedAgain) {
  Golden golden("pipeline_one_stage");
  PipelineOptions options = OptionsOf(golden, DType::kBF16);
  const GenerationRequest request = RequestOf(golden);
  std::atomic<int> calls_after_cancel = 0, failed = 0;
  const absl::Status status = RunThreadRanks({.tokens = 2}, [&](const Mesh& mesh) -> absl::Status {
    PipelineOptions mine = options;
    mine.arena_bytes = Pipeline::Plan(mine, mesh, request)->arena_bytes;
    KINORA_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Load(mine, mesh));
    ClipRecorder cancelled(false), whole(false);
    bool asked = false;
    const bool first = mesh.world().rank() == 0;
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
    ProgressObserver canceller([&](const Progress& p) {
      if (asked) ++calls_after_cancel;
      if (p.stage.name() == "denoise" && p.step == 2) {
        asked = true;
        return absl::CancelledError("by the test");
      }
      return absl::OkStatus();
    });
    const absl::Status run = pipeline->Generate(plan, first ? &cancelled : nullptr, &canceller);
    if (absl::IsCancelled(run)) ++failed;
    return pipeline->Generate(plan, first ? &whole : nullptr, &whole);
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(calls_after_cancel, 0);
}

// Fails at a given call, as if the disk were full.
class FullDiskSink : public ClipRecorder {
 public:
  explicit FullDiskSink(std::string at) : ClipRecorder(at == "audio_latent"), at_(std::move(at)) {}
  absl::Status Begin(const ClipInfo& info) override { return At("Begin", ClipRecorder::Begin(info)); }
  absl::Status Frames(int64_t first, const Tensor& rgb8) override {
    return At("Frames", ClipRecorder::Frames(first, rgb8));
  }
  absl::Status Audio(const Tensor&) override { return At("Audio", absl::OkStatus()); }
  absl::Status Failure() const override { return At("Failure", absl::OkStatus()); }
  absl::Status End() override { return At("End", absl::OkStatus()); }
  absl::Status Intermediate(std::string_view name, const Tensor&) override { return At(name, absl::OkStatus()); }

 private:
  absl::Status At(std::string_view name, absl::Status otherwise) const {
    return name == at_ ? absl::ResourceExhaustedError("no space left") : std::move(otherwise);
  }
  const std::string at_;
};

// The ranks of a group, each with a pipeline that is used for several runs.
class LoadedGroup {
 public:
  LoadedGroup(const MeshShape& shape, const PipelineOptions& options, const GenerationRequest& largest)
      : owned_(*MakeThreadMeshes(shape)), pipelines_(owned_.size()) {
    for (const auto& mesh : owned_) meshes_.push_back(mesh.get());
    EXPECT_THAT(OnEveryRank(meshes_,
                            [&](const Mesh& mesh) -> absl::Status {
                              PipelineOptions mine = options;
                              mine.arena_bytes = Pipeline::Plan(mine, mesh, largest)->arena_bytes;
                              KINORA_ASSIGN_OR_RETURN(pipelines_[mesh.world().rank()], Pipeline::Load(mine, mesh));
                              return absl::OkStatus();
                            }),
                IsOk());
  }
  absl::Status Generate(const GenerationRequest& request, ClipRecorder& sink) {
    return OnEveryRank(meshes_, [&](const Mesh& mesh) -> absl::Status {
      Pipeline& pipeline = *pipelines_[mesh.world().rank()];
      KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
      return pipeline.Generate(plan, mesh.world().rank() == 0 ? &sink : nullptr, &sink);
    });
  }

 private:
  const std::vector<std::unique_ptr<Mesh>> owned_;
  std::vector<const Mesh*> meshes_;
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
};

TEST(Pipeline, AFailureThatAllRanksLeaveWithIsTheSameForOneRankAndTwoAndBothGoOn) {
  Golden golden("pipeline_distilled");
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  const GenerationRequest request = RequestOf(golden);
  GenerationRequest larger = request;
  larger.num_frames += 80;
  for (const int ranks : {1, 2}) {
    LoadedGroup group({.tokens = ranks}, options, request);
    ClipRecorder whole(false), again(false), refused(false);
    ASSERT_THAT(group.Generate(request, whole), IsOk());
    for (const char* at : {"audio_latent", "Begin", "Frames", "Failure", "Audio", "End"}) {
      FullDiskSink sink(at);
      const absl::Status status = group.Generate(request, sink);
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no space left"))) << at;
      EXPECT_TRUE(IsAgreed(status)) << at << " with " << ranks << " ranks";
    }
    const absl::Status too_large = group.Generate(larger, refused);
    EXPECT_THAT(too_large, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("num_frames")));
    EXPECT_TRUE(IsAgreed(too_large)) << ranks;
    ASSERT_THAT(group.Generate(request, again), IsOk());
    EXPECT_TRUE(again.rgb8_ == whole.rgb8_) << ranks;
  }
}

// If one rank lacks memory, all ranks reject the request, whichever rank it is.
TEST(Pipeline, OneRankWithoutMemoryForTheRequestRefusesItForAll) {
  Golden golden("pipeline_distilled");
  const GenerationRequest request = RequestOf(golden);
  for (const int small : {0, 1}) {
    const absl::Status status = RunThreadRanks({.tokens = 2}, [&](const Mesh& mesh) -> absl::Status {
      PipelineOptions mine = OptionsOf(golden, DType::kBF16);
      mine.arena_bytes = Pipeline::Plan(mine, mesh, request)->arena_bytes;
      if (mesh.world().rank() == small) mine.arena_bytes /= 2;
      KINORA_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Load(mine, mesh));
      ClipRecorder clip(false);
      KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
      absl::Status refused = pipeline->Generate(plan, mesh.world().rank() == 0 ? &clip : nullptr, /*observer=*/nullptr);
      EXPECT_TRUE(IsAgreed(refused)) << refused;
      return refused;
    });
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("num_frames"))) << small;
  }
}

TEST(Pipeline, ProgressNeverFallsAndNamesEveryStageInOrder) {
  Golden golden("pipeline_one_stage");
  PipelineOptions options = OptionsOf(golden, DType::kBF16);
  const GenerationRequest request = RequestOf(golden);
  options.arena_bytes = Pipeline::Plan(options, *Mesh::Single(), request)->arena_bytes;
  const auto mesh = Mesh::Single();
  const auto pipeline = *Pipeline::Load(options, *mesh);
  std::vector<std::string> stages;
  int steps = 0;
  ProgressObserver observer([&](const Progress& p) {
    if (stages.empty() || stages.back() != p.stage.name()) stages.emplace_back(p.stage.name());
    if (p.stage.name() == "denoise" && p.step > 0) {
      EXPECT_EQ(p.step, ++steps);
    }
    return absl::OkStatus();
  });
  ClipRecorder clip(false);
  ASSERT_TRUE(pipeline->Generate(*pipeline->Prepare(request), &clip, &observer).ok());
  EXPECT_THAT(stages, testing::ElementsAre("encode", "denoise", "decode_video", "decode_audio"));
  EXPECT_EQ(steps, 5);
}

// Records the video's latents after each step, as a preview does.
class LatentRecorder : public RunObserver {
 public:
  bool WantsLatents(int64_t, int64_t) const override { return true; }
  absl::Status OnStep(const Progress&, const StepLatents* latents) override {
    if (latents == nullptr) return absl::OkStatus();
    const LatentState& video = latents->state.video;
    Floats& kept = latents_.emplace_back(video.layout.padded * video.z.width());
    Stream& stream = latents->exec.ops.stream();
    stream.CopyToHost(video.z, kept.data());
    return stream.Synchronize();
  }
  std::vector<Floats> latents_;
};

TEST(Pipeline, AnObserverSeesTheLatentsOfEachStepAndTheLastAreTheClips) {
  Golden golden("pipeline_distilled");
  PipelineOptions options = OptionsOf(golden, DType::kF32);
  const GenerationRequest request = RequestOf(golden);
  options.arena_bytes = Pipeline::Plan(options, *Mesh::Single(), request)->arena_bytes;
  const auto mesh = Mesh::Single();
  const auto pipeline = *Pipeline::Load(options, *mesh);
  const RunPlan plan = *pipeline->Prepare(request);
  LatentRecorder recorder;
  ClipRecorder clip, inspected;
  ASSERT_TRUE(pipeline->Generate(plan, &clip, &recorder).ok());
  ASSERT_TRUE(pipeline->Generate(plan, &inspected, &inspected).ok());
  ASSERT_EQ(static_cast<int64_t>(recorder.latents_.size()), plan.stages[1].steps);
  EXPECT_FALSE(recorder.latents_[0] == recorder.latents_[1]);
  const Floats& latent = inspected.values_["video_latent"];  // [1, C, F', H', W']
  const int64_t tokens = plan.stages[1].grid.tokens(), channels = static_cast<int64_t>(latent.size()) / tokens;
  for (int64_t i = 0; i < tokens * channels; ++i) {
    ASSERT_EQ(recorder.latents_.back()[i], latent[i % channels * tokens + i / channels]) << i;
  }
}

TEST(Pipeline, ThePlanIsWhatARunUses) {
  for (const char* name : {"pipeline_one_stage", "pipeline_distilled", "pipeline_2_0"}) {
    for (DType precision : {DType::kF32, DType::kBF16}) {
      Golden golden(name);
      PipelineOptions options = OptionsOf(golden, precision);
      const GenerationRequest request = RequestOf(golden);
      options.arena_bytes = Pipeline::Plan(options, *Mesh::Single(), request)->arena_bytes;
      const auto mesh = Mesh::Single();
      const auto pipeline = *Pipeline::Load(options, *mesh);
      ClipRecorder clip(false);
      ASSERT_TRUE(Generate(*pipeline, request, clip).ok());
      const double ratio = static_cast<double>(pipeline->peak_arena_bytes()) / static_cast<double>(options.arena_bytes);
      EXPECT_GE(ratio, 0.97) << name;
      EXPECT_LE(ratio, 1.0) << name;
    }
  }
}

TEST(Pipeline, AModelOfFewerRowsOfTextIsPlannedAndRunWithThese) {
  Golden golden("pipeline_one_stage");
  PipelineOptions options = OptionsOf(golden, DType::kBF16);
  GenerationRequest request = RequestOf(golden);
  request.prompt = std::string(3000, 'x') + "  ";  // fills all rows
  const auto whole = Pipeline::Plan(options, *Mesh::Single(), request);
  TemporaryDirectory folder;
  MakeTextEncoder(folder, 128);
  options.files.text_encoder = folder.path();
  const auto cost = Pipeline::Plan(options, *Mesh::Single(), request);
  ASSERT_TRUE(cost.ok()) << cost.status().ToString();
  EXPECT_LT(cost->flops(), 0.7 * whole->flops());
  options.arena_bytes = cost->arena_bytes;
  const auto mesh = Mesh::Single();
  const auto pipeline = *Pipeline::Load(options, *mesh);
  ClipRecorder clip;
  ASSERT_TRUE(Generate(*pipeline, request, clip).ok());
  EXPECT_GE(pipeline->peak_arena_bytes(), 0.97 * options.arena_bytes);
  EXPECT_EQ(clip.values_["input_ids"].size(), 128u);
  for (const char* name : {"video_context", "video_context_negative"}) EXPECT_EQ(clip.values_[name].size(), 128u * 64);
  for (const char* name : {"audio_context", "audio_context_negative"}) EXPECT_EQ(clip.values_[name].size(), 128u * 32);
}

TEST(Pipeline, ARequestBeyondTheReservedMemoryIsRefusedWithBothSizes) {
  Golden golden("pipeline_one_stage");
  PipelineOptions options = OptionsOf(golden, DType::kBF16);
  GenerationRequest request = RequestOf(golden);
  options.arena_bytes = Pipeline::Plan(options, *Mesh::Single(), request)->arena_bytes;
  const auto mesh = Mesh::Single();
  const auto pipeline = *Pipeline::Load(options, *mesh);
  request.num_frames = 65;
  ClipRecorder clip;
  const absl::Status status = Generate(*pipeline, request, clip);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("num_frames"));
}

TEST(Pipeline, GivenNoiseOfAnotherShapeIsRefusedByName) {
  Golden golden("pipeline_given_noise");
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  for (const std::string& name : NoiseNames()) {
    GenerationRequest request = RequestOf(golden);
    HostArray& draw = request.noise.draws.at(name);
    draw.shape[0] += 1;
    const absl::Status status = Pipeline::Plan(options, *Mesh::Single(), request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), StartsWith(name + ": shape [" + std::to_string(draw.shape[0]) + ", "));
  }
}

// Supplies every draw by name under another seed, then all but one, which the seed must draw differently.
TEST(Pipeline, GivenNoiseTakesThePlaceOfTheSeedsDraw) {
  Golden golden("pipeline_given_noise");
  const auto latents = [&](uint64_t seed, const std::function<bool(const std::string&)>& given) {
    GenerationRequest request = RequestOf(golden);
    request.seed = seed;
    std::erase_if(request.noise.draws, [&](const auto& draw) { return !given(draw.first); });
    ClipRecorder clip;
    EXPECT_TRUE(RenderOn(Cpu(), OptionsOf(golden, DType::kBF16), *Mesh::Single(), request, clip).ok());
    return std::pair(clip.values_["video_latent"], clip.values_["audio_latent"]);
  };
  const auto all = latents(1, [](const auto&) { return true; });
  EXPECT_EQ(latents(2, [](const auto&) { return true; }), all);
  for (const std::string& name : NoiseNames()) {
    EXPECT_NE(latents(1, [&](const auto& other) { return other != name; }), all) << name;
  }
}

// The run has no appended tokens, second stage or stochastic sampler.
TEST(Pipeline, GivenNoiseThatARunDoesNotDrawIsIgnored) {
  Golden golden("pipeline_distilled");
  GenerationRequest request = RequestOf(golden);
  for (const std::string& name : NoiseNames()) {
    if (name != "video_noise" && name != "audio_noise") request.noise.draws[name] = HostArray{{1}, Floats(1)};
  }
  EXPECT_TRUE(Pipeline::Plan(OptionsOf(golden, DType::kBF16), *Mesh::Single(), request).ok());
}

}  // namespace
}  // namespace kinora
