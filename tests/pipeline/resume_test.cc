// Runs that continue from the state of another: at every step of every recipe, the clip is that of a whole run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/pipeline/pipeline.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Takes the state after each step.
class StateRecorder : public ClipRecorder {
 public:
  explicit StateRecorder(bool takes) : ClipRecorder(/*intermediates=*/false), takes_(takes) {}
  bool WantsResumePoint(const Progress& progress) override {
    steps_.push_back(progress.step);
    return takes_;
  }
  void OnResumePoint(ResumePoint&& point) override { points_.push_back(std::move(point)); }

  std::vector<int32_t> steps_;
  std::vector<ResumePoint> points_;

 private:
  const bool takes_;
};

absl::StatusOr<std::unique_ptr<Pipeline>> Load(const TestedBackend& on, PipelineOptions options, const Mesh& mesh,
                                               const GenerationRequest& request) {
  const BackendOptions backend_options{.threads = 2};
  KINORA_ASSIGN_OR_RETURN(const RunPlan cost, Pipeline::PlanOn(on.traits(backend_options), options, mesh, request));
  options.arena_bytes = cost.arena_bytes;
  options.host_arena_bytes = cost.host_arena_bytes;
  KINORA_ASSIGN_OR_RETURN(auto backend, on.open(backend_options));
  return Pipeline::LoadOn(std::move(backend), options, mesh);
}

// Returns the number of resume points of a run, which every rank computes for itself.
size_t PointsOf(const RunPlan& plan) {
  size_t points = 0;
  for (const StagePlan& stage : plan.stages) points += stage.kind == StageKind::kDenoise ? stage.steps : 0;
  return points;
}

std::string NameOf(const ResumePoint& point) { return Cat("stage ", point.stage, ", step ", point.step); }

// Renders once, then once more from each point, or from one point alone, in a pipeline that did not make it.
absl::Status RenderFromPoints(const TestedBackend& on, const PipelineOptions& options, const Mesh& mesh,
                              const GenerationRequest& request, std::optional<size_t> only = std::nullopt) {
  const bool leads = mesh.world().rank() == 0;
  KINORA_ASSIGN_OR_RETURN(const auto first, Load(on, options, mesh, request));
  KINORA_ASSIGN_OR_RETURN(const auto second, Load(on, options, mesh, request));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, first->Prepare(request));
  StateRecorder whole(/*takes=*/true);
  KINORA_RETURN_IF_ERROR(first->Generate(plan, leads ? &whole : nullptr, &whole));
  EXPECT_EQ(whole.points_.size(), leads ? PointsOf(plan) : 0);
  for (size_t i = 0; i < PointsOf(plan); ++i) {
    if (only && i != *only) continue;
    const ResumePoint* const point = leads ? &whole.points_[i] : nullptr;
    StateRecorder rest(/*takes=*/false);
    KINORA_RETURN_IF_ERROR(second->Generate(plan, leads ? &rest : nullptr, &rest, point));
    if (!leads) continue;
    EXPECT_EQ(rest.steps_.size(), PointsOf(plan) - i - 1) << NameOf(*point);
    EXPECT_TRUE(rest.rgb8_ == whole.rgb8_) << NameOf(*point);
    EXPECT_TRUE(rest.values_["waveform"] == whole.values_["waveform"]) << NameOf(*point);
    EXPECT_TRUE(rest.ended_);
  }
  return absl::OkStatus();
}

struct Case {
  const char* golden;
  bool holds = false;  // predictions, by skip_step
};

class ResumedRun : public testing::TestWithParam<Case> {
 protected:
  GenerationRequest Request() {
    GenerationRequest request = RequestOf(golden_);
    if (GetParam().holds) {
      request.sigmas = {1.0, 0.9, 0.7, 0.4, 0.0};
      request.video_guidance->skip_step = 1;
      request.audio_guidance->skip_step = 2;
    }
    return request;
  }
  PipelineOptions Options() const { return OptionsOf(golden_, DType::kBF16); }

  Golden golden_{GetParam().golden};
};
INSTANTIATE_TEST_SUITE_P(
    Recipes, ResumedRun,
    testing::Values(Case{"pipeline_one_stage"}, Case{"pipeline_one_stage", true}, Case{"pipeline_two_stage"},
                    Case{"pipeline_distilled_two_stage"}, Case{"pipeline_hq"}, Case{"pipeline_hq_image"},
                    Case{"pipeline_keyframes"}, Case{"pipeline_temporal_x2_image"}, Case{"pipeline_retake"},
                    Case{"pipeline_retake_keep_audio"}, Case{"pipeline_sound"}, Case{"pipeline_sound_two_stage"},
                    Case{"pipeline_sound_alone"}, Case{"pipeline_given_noise"}, Case{"pipeline_2_5_distilled_image"},
                    Case{"pipeline_2_5_diffusion_decoder"}),
    [](const auto& info) { return std::string(info.param.golden) + (info.param.holds ? "_holding" : ""); });

TEST_P(ResumedRun, MakesTheWholeRunsClipFromEveryStep) {
  EXPECT_THAT(RenderFromPoints(Cpu(), Options(), *Mesh::Single(), Request()), IsOk());
}

TEST_P(ResumedRun, MakesTheWholeRunsClipOnTwoRanks) {
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2}, {.tensor = 2}}) {
    const auto render = [&](const Mesh& mesh) { return RenderFromPoints(Cpu(), Options(), mesh, Request()); };
    EXPECT_THAT(RunThreadRanks(shape, render), IsOk()) << shape.ToString();
  }
}

class ResumedOn : public testing::TestWithParam<TestedBackend> {};
INSTANTIATE_TEST_SUITE_P(Backends, ResumedOn, testing::ValuesIn(Backends()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ResumedOn, ADeviceMakesTheWholeRunsClip) {
  Golden golden("pipeline_hq");
  const GenerationRequest request = RequestOf(golden);
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, Pipeline::Plan(options, *Mesh::Single(), request));
  // Between the half-way point and the end of the last stage's first step.
  size_t point = 0;
  for (const StagePlan& stage : plan.stages) {
    if (stage.kind == StageKind::kDenoise) point = PointsOf(plan) - stage.steps;
  }
  EXPECT_THAT(RenderFromPoints(GetParam(), options, *Mesh::Single(), request, point), IsOk());
}

class ResumePoints : public testing::Test {
 protected:
  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(pipeline_, Load(Cpu(), OptionsOf(golden_, DType::kBF16), *mesh_, request_));
    KINORA_ASSERT_OK_AND_ASSIGN(plan_, pipeline_->Prepare(request_));
    ASSERT_THAT(pipeline_->Generate(plan_, &whole_, &whole_), IsOk());
  }
  absl::Status From(const ResumePoint& point) {
    StateRecorder rest(/*takes=*/false);
    return pipeline_->Generate(plan_, &rest, &rest, &point);
  }

  Golden golden_{"pipeline_two_stage"};
  const GenerationRequest request_ = RequestOf(golden_);
  const std::unique_ptr<const Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Pipeline> pipeline_;
  RunPlan plan_;
  StateRecorder whole_{/*takes=*/true};
};

TEST_F(ResumePoints, OfOtherRunsAreRejectedAndThePipelineStaysUsable) {
  const auto expect = [&](const ResumePoint& point, const char* why) {
    EXPECT_THAT(From(point), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  const ResumePoint& last = whole_.points_.back();
  ResumePoint point = last;
  point.stage = 0;
  expect(point, "resume point: stage 0 of the plan does not denoise");
  point.stage = 99;
  expect(point, "resume point: stage 99");
  point = last;
  point.step += 1;
  expect(point, "resume point: step ");
  point.step = 0;
  expect(point, "resume point: step 0");
  point = last;
  point.values.erase("audio.z");
  expect(point, "resume point: audio.z is missing");
  point = last;
  point.values["video.z"] = whole_.points_.front().values["video.z"];  // of the smaller first stage
  expect(point, "resume point: video.z: shape");
  point = last;
  point.values["video.q"] = {.shape = {1, 1}, .values = {0}};
  expect(point, "resume point: video.q: not a value of this run");
  point = last;
  point.values["audio.z"].shape = {1, 1, 1};
  expect(point, "resume point: audio.z: shape [1, 1, 1]");
  EXPECT_THAT(From(last), IsOk());
}

TEST_F(ResumePoints, HoldWhatLaterStepsReadAndNoMore) {
  const auto names = [](const ResumePoint& point) {
    std::vector<std::string> names;
    for (const auto& [name, value] : point.values) names.push_back(name);
    return names;
  };
  EXPECT_THAT(names(whole_.points_.front()), testing::ElementsAre("audio.z", "video.z"));
}

}  // namespace
}  // namespace kinora
