// Requests at the limits of the rules, run by the engine: everything the rules accept can be planned and computed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "engine/pipeline/pipeline.h"
#include "engine/request/request_rules.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

// Counts values that are not finite.
class FiniteSink : public ClipSink, public RunObserver {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor& waveform) override { return Count(waveform); }
  absl::Status End() override {
    ended_ = true;
    return absl::OkStatus();
  }
  bool WantsIntermediates() const override { return true; }
  absl::Status FloatFrames(int64_t, const Tensor& rgb) override { return Count(rgb); }

  bool ended_ = false;
  int64_t not_finite_ = 0;

 private:
  absl::Status Count(const Tensor& values) {
    for (int64_t i = 0; i < values.elements(); ++i) not_finite_ += !std::isfinite(values.data<float>()[i]);
    return absl::OkStatus();
  }
};

class AdmittedRequests : public testing::Test {
 protected:
  AdmittedRequests() {
    const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
    PipelineOptions options;
    options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
    options.files.text_encoder = models + "gemma";
    options.precision = DType::kF32;
    options.arena_bytes = int64_t{1} << 30;
    pipeline_ = *Pipeline::Load(options, *mesh_);
  }

  const std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Pipeline> pipeline_;
};

GenerationRequest Small() {
  GenerationRequest request;
  request.prompt = "a";
  request.width = request.height = 32;
  request.num_frames = 1;
  request.num_inference_steps = 1;
  return request;
}

TEST_F(AdmittedRequests, AtTheBordersGiveFiniteClips) {
  const int32_t last = pipeline_->description().blocks - 1;
  std::vector<GenerationRequest> requests(9, Small());
  requests[0].frame_rate = kMinFrameRate;
  requests[1].frame_rate = kMaxFrameRate;
  requests[2].num_frames = 33;
  requests[2].frame_rate = kMaxFrameRate;  // less sound than one latent covers
  requests[3].video_guidance = GuidanceParams{
      .cfg_scale = kMaxGuidanceScale, .stg_scale = -1, .stg_blocks = {0, last, last}, .rescale = 1, .skip_step = 999};
  requests[3].num_inference_steps = 3;
  requests[4].num_inference_steps = 0;
  requests[4].sigmas = {kMinSigma, 0};
  requests[5].num_inference_steps = 0;
  requests[5].sigmas = {1, 0.99999988, 0};  // adjacent in float32
  requests[6].recipe = Recipe::kDistilled;
  requests[6].num_inference_steps = 0;
  requests[6].video_guidance = GuidanceParams{};
  requests[7].schedule_tokens = -1;  // two tokens, fewer than the schedule's minimum
  requests[8].prompt = std::string(kMaxPromptBytes, 'a');
  for (size_t i = 0; i < requests.size(); ++i) {
    FiniteSink sink;
    const absl::StatusOr<RunPlan> plan = pipeline_->Prepare(requests[i]);
    ASSERT_THAT(plan, IsOk()) << i;
    ASSERT_THAT(pipeline_->Generate(*plan, &sink, &sink), IsOk()) << i;
    EXPECT_TRUE(sink.ended_) << i;
    EXPECT_EQ(sink.not_finite_, 0) << i;
  }
}

// Every accepted request has a plan, up to the largest sizes.
TEST_F(AdmittedRequests, OfEverySizeCanBePlanned) {
  const ModelDescription model = pipeline_->description();
  const RecipeDescription& recipe = *model.Find(Recipe::kOneStage, "");
  std::mt19937 random(3);
  const auto side = [&](int32_t most) {
    return recipe.min_size + 32 * static_cast<int32_t>(random() % ((most - recipe.min_size) / 32 + 1));
  };
  for (int i = 0; i < 40; ++i) {
    GenerationRequest request = Small();
    request.width = i == 0 ? recipe.max_width : side(recipe.max_width / (i % 4 + 1));
    request.height = i == 0 ? recipe.max_height : side(recipe.max_height / (i % 4 + 1));
    request.num_frames = i == 0 ? recipe.max_frames : 1 + 8 * static_cast<int32_t>(random() % (recipe.max_frames / 8));
    request.frame_rate = 1 + random() % 240;
    EXPECT_THAT(pipeline_->Prepare(request), IsOk())
        << request.width << "x" << request.height << ", " << request.num_frames << " at " << request.frame_rate;
  }
}

}  // namespace
}  // namespace kinora
