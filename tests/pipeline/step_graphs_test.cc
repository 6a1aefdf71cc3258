// Captured steps that are reused between requests.
#include "engine/pipeline/step_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status_macros.h"
#include "engine/ops/dry_ops.h"
#include "engine/pipeline/pipeline.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using Bytes = std::vector<uint8_t>;

class FrameKeeper : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override {
    rgb8_.insert(rgb8_.end(), rgb8.data<uint8_t>(), rgb8.data<uint8_t>() + rgb8.elements());
    return absl::OkStatus();
  }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
  Bytes rgb8_;
};

PipelineOptions TinyModel() {
  const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
  PipelineOptions options;
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  return options;
}

// Requests of one shape differ in everything else: prompt, seed, number of steps, scales, frame rate.
GenerationRequest Request(int width, uint64_t seed, int steps, double scale) {
  GenerationRequest request{.prompt = std::string(seed, 'a'), .width = width, .height = 64, .num_frames = 9};
  request.frame_rate = 24;
  request.recipe = Recipe::kOneStage;
  request.seed = seed;
  request.num_inference_steps = steps;
  request.video_guidance = GuidanceParams{.cfg_scale = scale, .rescale = 0.1 * scale};
  request.audio_guidance = GuidanceParams{.cfg_scale = scale + 1};
  return request;
}

std::vector<GenerationRequest> FiveOfTwoShapes() {
  return {Request(64, 1, 3, 2), Request(96, 2, 2, 3), Request(64, 3, 4, 5), Request(96, 4, 3, 2), Request(64, 5, 2, 3)};
}

absl::StatusOr<std::unique_ptr<Pipeline>> LoadFor(const Mesh& mesh, const std::vector<GenerationRequest>& requests) {
  PipelineOptions options = TinyModel();
  for (const GenerationRequest& request : requests) {
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, Pipeline::Plan(options, mesh, request));
    options.arena_bytes = std::max(options.arena_bytes, plan.arena_bytes);
  }
  return Pipeline::Load(options, mesh);
}

absl::StatusOr<Bytes> Render(Pipeline& pipeline, const Mesh& mesh, const GenerationRequest& request) {
  FrameKeeper sink;
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
  KINORA_RETURN_IF_ERROR(pipeline.Generate(plan, mesh.world().rank() == 0 ? &sink : nullptr, nullptr));
  return sink.rgb8_;
}

TEST(StepGraphs, FiveRequestsOfTwoShapesCaptureTwoStepsAndMakeTheirOwnPixels) {
  const auto requests = FiveOfTwoShapes();
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, LoadFor(*mesh, requests));
  std::vector<int64_t> captures;
  for (const GenerationRequest& request : requests) {
    KINORA_ASSERT_OK_AND_ASSIGN(const Bytes clip, Render(*pipeline, *mesh, request));
    captures.push_back(pipeline->captures());
    KINORA_ASSERT_OK_AND_ASSIGN(const auto fresh, LoadFor(*mesh, {request}));
    KINORA_ASSERT_OK_AND_ASSIGN(const Bytes alone, Render(*fresh, *mesh, request));
    EXPECT_TRUE(clip == alone) << "seed " << request.seed;
  }
  EXPECT_THAT(captures, ElementsAre(1, 2, 2, 2, 2));
}

TEST(StepGraphs, RanksCaptureAsOftenAsOneRankDoes) {
  const auto requests = FiveOfTwoShapes();
  const absl::Status status = RunThreadRanks({.guidance = 2, .tokens = 2}, [&](const Mesh& mesh) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(const auto pipeline, LoadFor(mesh, requests));
    for (const GenerationRequest& request : requests) {
      KINORA_RETURN_IF_ERROR(Render(*pipeline, mesh, request).status());
    }
    EXPECT_EQ(pipeline->captures(), 2);
    return absl::OkStatus();
  });
  EXPECT_THAT(status, IsOk());
}

TEST(StepGraphs, StepsThatHoldAPredictionAreOtherSteps) {
  GenerationRequest request = Request(64, 1, 4, 2);
  request.video_guidance->skip_step = 1;  // steps 1 and 3 reuse the video's prediction
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, LoadFor(*mesh, {request}));
  for (int i = 0; i < 2; ++i) ASSERT_THAT(Render(*pipeline, *mesh, request), IsOk());
  EXPECT_EQ(pipeline->captures(), 2);
}

TEST(StepGraphs, AShapesFirstStepRunsAsItIsThenOneIsCapturedThenReplayed) {
  DryStream stream;
  StepGraphs graphs;
  std::vector<bool> captured;
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(graphs.Run(stream, {}, {}, [&] { captured.push_back(stream.capturing()); }), IsOk());
  }
  EXPECT_THAT(captured, ElementsAre(false, true));
  EXPECT_EQ(graphs.captures(), 1);
}

TEST(StepGraphs, TheOneUsedLongestAgoGoesFirst) {
  DryStream stream;
  StepGraphs graphs(/*capacity=*/2);
  const auto run_twice = [&](int64_t tokens) {
    StepShape shape;
    shape.model.tokens.video = tokens;
    for (int i = 0; i < 2; ++i) ASSERT_THAT(graphs.Run(stream, shape, {}, [] {}), IsOk());
  };
  for (const int64_t tokens : {1, 2, 1, 3}) run_twice(tokens);  // evicts 2
  EXPECT_EQ(graphs.captures(), 3);
  EXPECT_EQ(graphs.size(), 2u);
  run_twice(1);
  EXPECT_EQ(graphs.captures(), 3);
  run_twice(2);
  EXPECT_EQ(graphs.captures(), 4);
}

TEST(StepGraphs, AKnownShapeAtOtherAddressesBeginsAnew) {
  DryStream stream;
  StepGraphs graphs;
  const int a = 0, b = 0;
  for (const int* address : {&a, &a, &a, &b, &b}) {
    ASSERT_THAT(graphs.Run(stream, {}, {address}, [] {}), IsOk());
  }
  EXPECT_EQ(graphs.captures(), 2);
  EXPECT_EQ(graphs.size(), 1u);  // the stale graph is dropped
}

}  // namespace
}  // namespace kinora
