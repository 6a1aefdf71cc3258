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

// The blocks that the STG pass shares with the conditional pass differ.
TEST(StepGraphs, StepsThatPerturbOtherBlocksAreOtherSteps) {
  std::vector<GenerationRequest> requests(3, Request(64, 1, 4, 2));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].video_guidance->stg_scale = 1;
    requests[i].video_guidance->stg_blocks = {i == 1 ? 1 : 0};
  }
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, LoadFor(*mesh, requests));
  std::vector<Bytes> clips;
  for (const GenerationRequest& request : requests) {
    KINORA_ASSERT_OK_AND_ASSIGN(clips.emplace_back(), Render(*pipeline, *mesh, request));
  }
  EXPECT_EQ(pipeline->captures(), 2);
  EXPECT_TRUE(clips[2] == clips[0]);
  EXPECT_FALSE(clips[1] == clips[0]);
}

TEST(StepGraphs, AShapesFirstStepRunsAsItIsThenOneIsCapturedThenReplayed) {
  DryStream stream;
  StepGraphs graphs;
  std::vector<bool> captured;
  for (int i = 0; i < 4; ++i) {
    graphs.Run(stream, {}, {}, [&] { captured.push_back(stream.capturing()); });
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
    for (int i = 0; i < 2; ++i) graphs.Run(stream, shape, {}, [] {});
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
    graphs.Run(stream, {}, {address}, [] {});
  }
  EXPECT_EQ(graphs.captures(), 2);
  EXPECT_EQ(graphs.size(), 1u);  // the stale graph is dropped
  EXPECT_THAT(graphs.misses(), ElementsAre(1, 1, 0, 0, 0));
}

// A stream that holds at most `room` graphs and otherwise fails as told.
class FullStream : public DryStream {
 public:
  absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) override {
    if (!failure.ok()) return failure;
    KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, DryStream::Capture(std::move(body)));
    if (held >= room) return absl::ResourceExhaustedError("no memory for a graph");
    return std::make_unique<Held>(*this, std::move(graph));
  }
  bool can_capture() const override { return captures; }

  int room = 100, held = 0;
  absl::Status failure;
  bool captures = true;

 private:
  class Held : public Graph {
   public:
    Held(FullStream& stream, std::unique_ptr<Graph> graph) : stream_(stream), graph_(std::move(graph)) {
      ++stream_.held;
    }
    ~Held() override { --stream_.held; }
    void Replay() override { graph_->Replay(); }

   private:
    FullStream& stream_;
    const std::unique_ptr<Graph> graph_;
  };
};

StepShape OfTokens(int64_t tokens) {
  StepShape shape;
  shape.model.tokens.video = tokens;
  return shape;
}

TEST(StepGraphs, WithoutMemoryTheOldestGraphsGoAndThenStepsRunDirectly) {
  FullStream stream;
  stream.room = 2;
  StepGraphs graphs;
  const auto run = [&](int64_t tokens) {
    for (int i = 0; i < 3; ++i) graphs.Run(stream, OfTokens(tokens), {}, [] {});
  };
  for (const int64_t tokens : {1, 2, 3}) run(tokens);
  EXPECT_EQ(graphs.captures(), 3);
  EXPECT_EQ(stream.held, 2) << "the graph of 1 token was dropped";
  EXPECT_THAT(graphs.misses(), ElementsAre(3, 0, 0, 0, 0));
  run(2);  // is still there
  EXPECT_EQ(graphs.captures(), 3);
  stream.room = 0;
  run(4);
  EXPECT_EQ(stream.held, 0);
  EXPECT_THAT(graphs.misses(), ElementsAre(4, 0, 0, 2, 0));
}

TEST(StepGraphs, AStepThatCannotBeCapturedRunsDirectlyAndIsNotTriedAgain) {
  FullStream stream;
  stream.failure = absl::InternalError("operation not permitted when stream is capturing");
  StepGraphs graphs;
  int runs = 0;
  for (int i = 0; i < 3; ++i) graphs.Run(stream, {}, {}, [&] { ++runs; });
  stream.failure = absl::OkStatus();
  graphs.Run(stream, {}, {}, [&] { ++runs; });
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(graphs.captures(), 0);
  EXPECT_THAT(graphs.misses(), ElementsAre(1, 0, 3, 0, 0));
  graphs.Run(stream, OfTokens(1), {}, [] {});
  graphs.Run(stream, OfTokens(1), {}, [] {});
  EXPECT_EQ(graphs.captures(), 1) << "other shapes are";
}

TEST(StepGraphs, AFailureOfEarlierWorkIsNotTheStepsOwn) {
  DryStream stream;
  StepGraphs graphs;
  graphs.Run(stream, {}, {}, [] {});
  stream.Fail(absl::AbortedError("a rank is lost"));
  graphs.Run(stream, {}, {}, [] {});
  EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kAborted, testing::HasSubstr("a rank is lost")));
  graphs.Run(stream, {}, {}, [] {});
  EXPECT_EQ(graphs.captures(), 1) << "the step is captured when the stream works again";
}

TEST(StepGraphs, WithoutCapturesEveryStepRunsDirectly) {
  FullStream stream;
  stream.captures = false;
  StepGraphs graphs;
  for (int i = 0; i < 3; ++i) graphs.Run(stream, {}, {}, [] {});
  EXPECT_THAT(graphs.misses(), ElementsAre(0, 0, 0, 0, 3));
}

}  // namespace
}  // namespace kinora
