// Whole renders on the simulated device: the host stays out of the loop, and device failures are handled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda_switches.h"
#include "engine/ops/cuda_traits.h"
#include "engine/pipeline/pipeline.h"
#include "tests/simt/control.h"
#include "tests/simt/cudnn/control.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FrameKeeper : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override {
    rgb8_.insert(rgb8_.end(), rgb8.data<uint8_t>(), rgb8.data<uint8_t>() + rgb8.elements());
    return absl::OkStatus();
  }
  absl::Status Audio(const Tensor& waveform) override {
    audio_.assign(waveform.data<float>(), waveform.data<float>() + waveform.elements());
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }
  std::vector<uint8_t> rgb8_;
  std::vector<float> audio_;
};

// Calls `step` after each step of denoising.
class StepObserver : public RunObserver {
 public:
  explicit StepObserver(std::function<absl::Status(int step)> step) : step_(std::move(step)) {}
  absl::Status OnStep(const Progress& progress, const StepLatents*) override {
    return progress.stage.name().starts_with("denoise") ? step_(progress.step) : absl::OkStatus();
  }

 private:
  const std::function<absl::Status(int step)> step_;
};

GenerationRequest Request(int steps) {
  GenerationRequest request{.prompt = "a red ball", .width = 64, .height = 64, .num_frames = 9};
  request.recipe = Recipe::kOneStage;
  request.seed = 7;
  request.num_inference_steps = steps;
  return request;
}

class CudaPipelineTest : public testing::Test {
 protected:
  void SetUp() override { simt::Seed(5); }
  ~CudaPipelineTest() override {
    pipeline_.reset();
    simt::SetPlanBytes(kMostPlanBytes / 3);
    simt::Restore();
    simt::SetDevice(simt::Model::kH100, int64_t{80} << 30);
  }
  PipelineOptions Options() const {
    const std::string models = std::string(KINORA_SOURCE_DIR "/models/tiny/");
    PipelineOptions options{.device = "cuda"};
    options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
    options.files.text_encoder = models + "gemma";
    return options;
  }
  static int64_t Free() {
    size_t free_bytes = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    return static_cast<int64_t>(free_bytes);
  }
  // As on a real device, the memory of a lost device is not freed until the process ends.
  static void LeaveFree(int64_t bytes) {
    size_t free_bytes = 0, total = 0;
    ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    simt::SetDevice(simt::Model::kH100, static_cast<int64_t>(total - free_bytes) + bytes);
  }
  absl::Status Load(const GenerationRequest& request) { return Load(request, Options()); }
  absl::Status Load(const GenerationRequest& request, PipelineOptions options) {
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, Pipeline::Plan(options, *mesh_, request));
    options.arena_bytes = plan.arena_bytes;
    options.host_arena_bytes = plan.host_arena_bytes;
    KINORA_ASSIGN_OR_RETURN(pipeline_, Pipeline::Load(options, *mesh_));
    return absl::OkStatus();
  }
  absl::Status Render(
      const GenerationRequest& request,
      std::function<absl::Status(int step)> on_step = [](int) { return absl::OkStatus(); }) {
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline_->Prepare(request));
    StepObserver observer(std::move(on_step));
    clip_ = FrameKeeper();
    return pipeline_->Generate(plan, &clip_, &observer);
  }

  absl::Status LoadWithout(const char* off, const char* synchronize) {
    setenv(kCudaOffVariable, off, 1);
    setenv(kCudaSynchronizeVariable, synchronize, 1);
    absl::Status status = Load(Request(2));
    unsetenv(kCudaOffVariable);
    unsetenv(kCudaSynchronizeVariable);
    return status;
  }
  // Returns the steps of the last run, over all its stages, that ran without a graph.
  GraphMisses Misses() const {
    GraphMisses misses{};
    for (const StageUse& use : pipeline_->last_run()) {
      for (int i = 0; i < kGraphMisses; ++i) misses[i] += use.graph_misses[i];
    }
    return misses;
  }

  const std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Pipeline> pipeline_;
  FrameKeeper clip_;
};

TEST_F(CudaPipelineTest, BuildsThePlansOfARunBeforeItBegins) {
  simt::SetPlanBytes(1);  // so that none is dropped
  PipelineOptions options = Options();
  options.threads = 2;
  options.precision = *Precision::Parse("bf16");
  GenerationRequest request = Request(2);
  ASSERT_THAT(Load(request, options), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, pipeline_->Prepare(request));
  const int64_t none = simt::BuiltPlans();
  pipeline_->DoAhead(plan);
  const int64_t ahead = simt::BuiltPlans() - none;
  EXPECT_GT(ahead, 0);
  ASSERT_THAT(Render(request), IsOk());
  EXPECT_EQ(simt::BuiltPlans() - none, ahead);  // the list has all that the run needs
  const std::vector<uint8_t> frames = clip_.rgb8_;

  ASSERT_THAT(Load(request, options), IsOk());
  RunPlan unlisted = plan;
  unlisted.one_time_work = nullptr;
  StepObserver observer([](int) { return absl::OkStatus(); });
  clip_ = FrameKeeper();
  const int64_t before = simt::BuiltPlans();
  ASSERT_THAT(pipeline_->Generate(unlisted, &clip_, &observer), IsOk());
  EXPECT_EQ(simt::BuiltPlans() - before, ahead);  // and nothing else
  EXPECT_EQ(clip_.rgb8_, frames);
}

TEST_F(CudaPipelineTest, BetweenTheFirstStepAndTheLastTheHostOnlyLaunchesGraphs) {
  constexpr int kSteps = 5;
  ASSERT_THAT(Load(Request(kSteps)), IsOk());
  for (int run = 0; run < 2; ++run) {
    simt::Counts first, last;
    simt::ResetCounts();
    ASSERT_THAT(Render(Request(kSteps),
                       [&](int step) {
                         (step == 1 ? first : last) = simt::Counted();
                         return absl::OkStatus();
                       }),
                IsOk());
    EXPECT_EQ(last.synchronizations, first.synchronizations);
    EXPECT_EQ(last.host_copies, first.host_copies);
    EXPECT_EQ(last.allocations, first.allocations);
    EXPECT_EQ(last.launches, first.launches);
    EXPECT_EQ(first.captures, run == 0 ? 1u : 0u);
    EXPECT_EQ(last.captures, first.captures);
    // The first report arrives when the second step is enqueued.
    EXPECT_EQ(last.graph_launches - first.graph_launches, static_cast<uint64_t>(kSteps - 2));
  }
}

// res_2s adds noise after every evaluation but the last. The host draws it.
TEST_F(CudaPipelineTest, TheNoiseOfHqIsOnTheDeviceBeforeTheFirstStep) {
  GenerationRequest request = Request(2);
  request.recipe = Recipe::kHq;
  request.width = 128;
  request.video_guidance = request.audio_guidance = GuidanceParams{};
  const std::string data = std::string(KINORA_SOURCE_DIR "/tests/golden/data/");
  PipelineOptions options = Options();
  options.files.distilled_lora = data + "lora-tiny-style.safetensors";
  options.files.spatial_upsampler = data + "upsampler-tiny-x2.safetensors";
  ASSERT_THAT(Load(request, options), IsOk());
  simt::Counts first;
  std::vector<int> steps;
  const auto on_step = [&](int step) {
    steps.push_back(step);
    const simt::Counts now = simt::Counted();
    if (step == 1) first = now;
    EXPECT_EQ(now.host_copies, first.host_copies) << step;
    EXPECT_EQ(now.synchronizations, first.synchronizations) << step;
    return absl::OkStatus();
  };
  ASSERT_THAT(Render(request, on_step), IsOk());
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7));
}

// Tiles are blended and converted to bytes on the device. Besides the results, each group of frames only copies one
// word to the host: the number of the first frame with a NaN. The host only waits for the sound.
TEST_F(CudaPipelineTest, ADecodeBringsBytesToTheHostAndNothingElse) {
  GenerationRequest request = Request(2);
  request.width = 96;
  ASSERT_THAT(Load(request), IsOk());
  simt::Counts denoised;
  ASSERT_THAT(Render(request,
                     [&](int) {
                       denoised = simt::Counted();
                       return absl::OkStatus();
                     }),
              IsOk());
  const simt::Counts all = simt::Counted();
  EXPECT_EQ(clip_.rgb8_.size(), 9u * 64 * 96 * 3);
  EXPECT_EQ(all.bytes_to_host - denoised.bytes_to_host,
            clip_.rgb8_.size() + clip_.audio_.size() * sizeof(float) + sizeof(int32_t));
  EXPECT_EQ(all.synchronizations - denoised.synchronizations, 1u);  // for the sound; ends of tiles are polled
}

TEST_F(CudaPipelineTest, AChangeOfLorasKeepsTheWeightsInWhatTheLargestClipLeaves) {
  PipelineOptions options = Options();
  options.files.loras = {{.id = "style", .path = KINORA_SOURCE_DIR "/tests/golden/data/lora-tiny-style.safetensors"}};
  const MemoryLimit memory{.bytes = int64_t{80} << 30, .by = "a test"};
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan usual, Pipeline::PlanMemory(memory, *mesh_, options));
  EXPECT_EQ(options.clean_weights.device_bytes,
            memory.bytes - usual.driver_bytes - (usual.device_bytes() - usual.arena_bytes) - options.arena_bytes);
  GenerationRequest request = Request(1);
  ASSERT_THAT(Load(request, options), IsOk());
  request.loras = {{.id = "style"}};
  const auto cancel = [](int) { return absl::CancelledError("seen"); };
  EXPECT_THAT(Render(request, cancel), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_GT(pipeline_->clean_weights().device_bytes, 0);
  EXPECT_EQ(pipeline_->clean_weights().host_bytes, 0);
}

TEST_F(CudaPipelineTest, ACancelStopsWithinTwoStepsAndTheNextRunIsWhole) {
  ASSERT_THAT(Load(Request(6)), IsOk());
  ASSERT_THAT(Render(Request(6)), IsOk());
  const std::vector<uint8_t> whole = clip_.rgb8_;
  simt::ResetCounts();
  const absl::Status cancelled =
      Render(Request(6), [](int step) { return step == 2 ? absl::CancelledError("enough") : absl::OkStatus(); });
  EXPECT_THAT(cancelled, StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_LE(simt::Counted().graph_launches, 4u);
  ASSERT_THAT(Render(Request(6)), IsOk());
  EXPECT_TRUE(clip_.rgb8_ == whole);
}

TEST_F(CudaPipelineTest, ADeviceLostBetweenStepsEndsTheRunAndTheGroup) {
  ASSERT_THAT(Load(Request(4)), IsOk());
  const absl::Status lost = Render(Request(4), [](int step) {
    if (step == 2) simt::FailCall("cudaEventQuery", cudaErrorLaunchFailure);
    return absl::OkStatus();
  });
  EXPECT_THAT(lost, StatusIs(absl::StatusCode::kAborted, HasSubstr("the CUDA device is lost")));
  EXPECT_THAT(Render(Request(4)), StatusIs(absl::StatusCode::kAborted, HasSubstr("the CUDA device is lost")));
}

TEST_F(CudaPipelineTest, ALaunchThatFailsIsNamedAndTheNextRunIsWhole) {
  ASSERT_THAT(Load(Request(2)), IsOk());
  simt::FailCall("kernel", cudaErrorInvalidConfiguration, /*after=*/20);
  EXPECT_THAT(Render(Request(2)), StatusIs(absl::StatusCode::kInternal,
                                           testing::MatchesRegex("[A-Z][A-Za-z0-9]+ of (f32|bf16) \\[.*\\]: .*")));
  EXPECT_THAT(Render(Request(2)), IsOk());
}

TEST_F(CudaPipelineTest, AStepThatCannotBeCapturedRunsWithoutAGraphAndChangesNoPixel) {
  ASSERT_THAT(Load(Request(3)), IsOk());
  ASSERT_THAT(Render(Request(3)), IsOk());
  const std::vector<uint8_t> whole = clip_.rgb8_;
  const struct {
    const char* call;
    cudaError_t error;
    GraphMisses misses;
  } cases[] = {{"cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated, {1, 0, 2, 0, 0}},
               {"cudaGraphInstantiate", cudaErrorMemoryAllocation, {1, 0, 0, 2, 0}}};
  for (const auto& each : cases) {
    ASSERT_THAT(Load(Request(3)), IsOk());  // drops captured graphs
    simt::FailCall(each.call, each.error);
    ASSERT_THAT(Render(Request(3)), IsOk()) << each.call;
    EXPECT_TRUE(clip_.rgb8_ == whole) << each.call;
    EXPECT_EQ(pipeline_->captures(), 0) << each.call;
    EXPECT_EQ(Misses(), each.misses) << each.call;
  }
}

TEST_F(CudaPipelineTest, AGraphThatCannotBeLaunchedEndsTheRunAlone) {
  ASSERT_THAT(Load(Request(3)), IsOk());
  simt::FailCall("cudaGraphLaunch", cudaErrorMemoryAllocation);
  EXPECT_THAT(Render(Request(3)), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Render(Request(3)), IsOk());
}

// Only cuDNN has other sums than what takes its place, so only its absence changes bits.
TEST_F(CudaPipelineTest, PartsThatCanBeSwitchedOffAreNotNeeded) {
  ASSERT_THAT(Load(Request(2)), IsOk());
  ASSERT_THAT(Render(Request(2)), IsOk());
  const std::vector<uint8_t> whole = clip_.rgb8_;
  ASSERT_THAT(LoadWithout("graphs,early-launch,branch,tuning", "1"), IsOk());
  simt::ResetCounts();
  ASSERT_THAT(Render(Request(2)), IsOk());
  const simt::Counts counts = simt::Counted();
  EXPECT_TRUE(clip_.rgb8_ == whole);
  EXPECT_EQ(Misses(), (GraphMisses{0, 0, 0, 0, 2}));
  EXPECT_EQ(counts.captures, 0u);
  EXPECT_GE(counts.synchronizations, counts.launches / 2) << "an op may launch several kernels";

  ASSERT_THAT(LoadWithout("cudnn", ""), IsOk());
  ASSERT_THAT(Render(Request(2)), IsOk());
  ASSERT_EQ(clip_.rgb8_.size(), whole.size());
  double difference = 0;
  for (size_t i = 0; i < whole.size(); ++i) difference += std::abs(clip_.rgb8_[i] - whole[i]);
  EXPECT_LT(difference / static_cast<double>(whole.size()), 2) << "of 255";
}

TEST_F(CudaPipelineTest, AModelThatDoesNotFitIsRefusedAtLoadAndLeavesNothingBehind) {
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  for (const int after_calls : {0, 1, 2, 3, 10, 40}) {
    simt::FailCall("cudaMalloc", cudaErrorMemoryAllocation, after_calls);
    EXPECT_THAT(Load(Request(2)), StatusIs(absl::StatusCode::kResourceExhausted,
                                           AllOf(HasSubstr("bytes of device memory for "), HasSubstr("free"))))
        << after_calls;
    ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
    EXPECT_EQ(after, before);
  }
  EXPECT_THAT(Load(Request(2)), IsOk());
}

TEST_F(CudaPipelineTest, ThePlanIsWhatTheDeviceGives) {
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    PipelineOptions options = Options();
    options.precision = precision;
    options.text_cache_bytes = 0;  // allocated when prompts arrive
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, Pipeline::Plan(options, *mesh_, Request(2)));
    options.arena_bytes = plan.arena_bytes;
    options.host_arena_bytes = plan.host_arena_bytes;
    KINORA_ASSERT_OK_AND_ASSIGN(pipeline_, Pipeline::Load(options, *mesh_));
    ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
    EXPECT_EQ(static_cast<int64_t>(before - after), plan.device_bytes()) << DTypeName(precision);
    pipeline_.reset();
  }
}

// Reserves memory as a worker does: all of the device that nothing else uses.
TEST_F(CudaPipelineTest, WhatIsLeftOfTheDeviceIsReservedAndALargerClipIsToldTheNearestThatFits) {
  PipelineOptions options = Options();
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan small, Pipeline::Plan(options, *mesh_, Request(2)));
  const int64_t memory = small.device_bytes() + small.driver_bytes + (32 << 20);
  LeaveFree(memory);
  ASSERT_THAT(Pipeline::PlanMemory({.bytes = memory, .by = "a test"}, *mesh_, options), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(pipeline_, Pipeline::Load(options, *mesh_));
  EXPECT_EQ(Free(), small.driver_bytes + options.text_cache_bytes);
  GenerationRequest large = Request(2);
  large.width = large.height = 512;
  const absl::Status refused = Render(large);
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("nearest: 512x512 with ")));
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, pipeline_->Prepare(large));
  KINORA_ASSERT_OK_AND_ASSIGN(large.num_frames, pipeline_->MostFrames(plan.request));
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("nearest: 512x512 with ", large.num_frames, " frames")));
  EXPECT_THAT(Render(Request(2)), IsOk());
}

TEST_F(CudaPipelineTest, ATextEncoderWithoutRoomIsEvictedAndChangesNoBit) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    PipelineOptions options = Options();
    options.precision = precision;
    options.text_cache_bytes = 0;
    KINORA_ASSERT_OK_AND_ASSIGN(RunPlan plan,
                                Pipeline::PlanWithin({int64_t{80} << 30, "a test"}, *mesh_, Request(2), options));
    EXPECT_EQ(plan.TextEncoderResidence(), "resident");
    LeaveFree(int64_t{80} << 30);
    KINORA_ASSERT_OK_AND_ASSIGN(pipeline_, Pipeline::Load(options, *mesh_));
    ASSERT_THAT(Render(Request(2)), IsOk());
    const std::vector<uint8_t> resident = clip_.rgb8_;
    const std::vector<float> sound = clip_.audio_;
    pipeline_.reset();

    const int64_t memory = plan.device_bytes() + plan.driver_bytes - 1;  // one byte too few
    KINORA_ASSERT_OK_AND_ASSIGN(plan, Pipeline::PlanWithin({memory, "a test"}, *mesh_, Request(2), options));
    EXPECT_THAT(plan.TextEncoderResidence(), HasSubstr("evicted, "));
    EXPECT_GT(plan.evicted_bytes, 0);
    ASSERT_TRUE(plan.FitsDevice(memory));
    LeaveFree(plan.device_bytes());
    KINORA_ASSERT_OK_AND_ASSIGN(pipeline_, Pipeline::Load(options, *mesh_));
    EXPECT_EQ(Free(), 0) << DTypeName(precision);
    ASSERT_THAT(Render(Request(2)), IsOk());
    EXPECT_TRUE(clip_.rgb8_ == resident) << DTypeName(precision);
    EXPECT_TRUE(clip_.audio_ == sound) << DTypeName(precision);
    pipeline_.reset();
  }
}

// Fresh memory is NaN and the order of work is random, so a dependence on either changes the result.
TEST_F(CudaPipelineTest, TheOrderOfWorkChangesNoPixel) {
  std::vector<uint8_t> first;
  for (const uint64_t seed : {1, 2, 3}) {
    simt::Seed(seed);
    ASSERT_THAT(Load(Request(2)), IsOk());
    ASSERT_THAT(Render(Request(2)), IsOk());
    if (first.empty()) first = clip_.rgb8_;
    EXPECT_TRUE(clip_.rgb8_ == first) << seed;
    pipeline_.reset();
  }
}

}  // namespace
}  // namespace kinora
