// The ranges that a profiler of the simulated device would see of a whole render.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/range_sink.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using Paths = std::vector<std::string>;

// Keeps the path of each range that the test's thread enters: "denoise/step 1/block 0".
class PathKeeper : public RangeSink {
 public:
  PathKeeper() { SetRangeSink(this); }
  ~PathKeeper() override {
    SetRangeSink(nullptr);
    EXPECT_TRUE(within_.empty());
  }
  void Enter(const char* name, int64_t number) override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    const std::string above = within_.empty() ? "" : absl::StrCat(within_.back(), "/");
    within_.push_back(number < 0 ? absl::StrCat(above, name) : absl::StrCat(above, name, " ", number));
    paths_.push_back(within_.back());
  }
  void Leave() override {
    ASSERT_FALSE(within_.empty());
    within_.pop_back();
  }
  // The paths that begin with `prefix`, in order.
  Paths Below(const std::string& prefix) const {
    Paths found;
    for (const std::string& path : paths_) {
      if (absl::StartsWith(path, prefix)) found.push_back(path);
    }
    return found;
  }
  Paths Outermost() const {
    Paths found;
    for (const std::string& path : paths_) {
      if (!absl::StrContains(path, "/")) found.push_back(path);
    }
    return found;
  }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  Paths within_, paths_;
};

class NoSink : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

// Renders with three steps of two blocks each.
absl::Status Render(const CudaFlags& cuda) {
  const std::string models = std::string(KINORA_SOURCE_DIR "/models/tiny/");
  PipelineOptions options{.device = "cuda", .cuda = cuda};
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  GenerationRequest request{.prompt = "a red ball", .width = 64, .height = 64, .num_frames = 9};
  request.recipe = Recipe::kOneStage;
  request.num_inference_steps = 3;
  const std::unique_ptr<Mesh> mesh = Mesh::Single();
  KINORA_RETURN_IF_ERROR(Pipeline::PlanWithin({int64_t{1} << 36, "a test"}, *mesh, request, options).status());
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Pipeline> pipeline, Pipeline::Load(options, *mesh));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
  NoSink sink;
  return pipeline->Generate(plan, &sink, nullptr);
}

TEST(CudaRanges, WithoutGraphsEachStepOfAStageEntersEachBlockOnce) {
  const PathKeeper kept;
  ASSERT_THAT(Render({.off = CudaSwitches{.graphs = false}}), IsOk());
  EXPECT_THAT(kept.Outermost(), ElementsAre("encode", "denoise", "decode_video", "decode_audio"));
  Paths expected = {"denoise"};
  for (const char* step : {"denoise/step 1", "denoise/step 2", "denoise/step 3"}) {
    for (const char* block : {"", "/block 0", "/block 1"}) expected.push_back(absl::StrCat(step, block));
  }
  EXPECT_THAT(kept.Below("denoise"), ElementsAreArray(expected));
  EXPECT_THAT(kept.Below("encode/block 0"), testing::Not(testing::IsEmpty()));  // of Gemma and the connectors
}

// The first step of a shape runs directly, the second is captured, and the others replay it.
TEST(CudaRanges, WithGraphsTheStepsThatAreReplayedEnterNoBlock) {
  const PathKeeper kept;
  ASSERT_THAT(Render({}), IsOk());
  EXPECT_THAT(kept.Below("denoise/step 2"),
              ElementsAre("denoise/step 2", "denoise/step 2/block 0", "denoise/step 2/block 1"));
  EXPECT_THAT(kept.Below("denoise/step 3"), ElementsAre("denoise/step 3"));
}

}  // namespace
}  // namespace kinora
