// The predicted times of a step: made from all of the work that a step has, and as docs/performance.md prints them.
#include "tests/prediction/step_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "engine/config/released_models.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

const PassList kFour = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};

std::vector<Launch> StepOf(const PassList& passes, std::vector<int> perturbed_blocks, int64_t tokens = 6144) {
  const ModelConfig config = ReleasedModelConfig("ltx-2.3-22b").value();
  return LaunchesOfStep(config.transformer, {.video_tokens = tokens,
                                             .audio_tokens = 126,
                                             .passes = passes,
                                             .perturbed_blocks = std::move(perturbed_blocks)})
      .value();
}

double Flop(const std::vector<Launch>& launches) {
  double flop = 0;
  for (const Launch& launch : launches) flop += launch.flop;
  return flop;
}

TEST(StepPrediction, DocumentsPrintTheTableThatTheProgramComputes) {
  std::ifstream file(KINORA_SOURCE_DIR "/docs/performance.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string table, PredictionTables());
  EXPECT_THAT(page, HasSubstr(table)) << "build/release/tests/prediction/predict_steps prints the new table";
}

// Four passes share the blocks before the perturbed one, of three passes each.
TEST(StepPrediction, AStepHasTheWorkOfItsPasses) {
  const double one = Flop(StepOf({Pass::kCond}, {})), four = Flop(StepOf(kFour, {28}));
  const double whole = Flop(StepOf(kFour, {0}));
  EXPECT_GT(one, 0.9 * 2 * 14e9 * 6144);  // two operations for each of the video's weights in the blocks and each token
  EXPECT_NEAR(four / whole, (4.0 * 48 - 28) / (4 * 48), 0.02);
  // The isolated pass has no attention between picture and sound.
  EXPECT_GT(whole / one, 3.8);
  EXPECT_LT(whole / one, 4);
}

TEST(StepPrediction, ABranchCountsWhereItIsLongerAndSplitAttentionAlways) {
  const GpuRates rates{.product_flops = 1, .split_attention_flops = 1, .bytes = 1, .launch_seconds = 0};
  std::vector<Launch> launches = {{.kernel = "row_norm", .bytes = 5, .section = 1},
                                  {.kernel = "row_norm", .bytes = 3, .on_branch = true, .section = 1},
                                  {.kernel = "split_attention", .flop = 2, .on_branch = true, .section = 1},
                                  {.kernel = "row_norm", .bytes = 1, .section = 2}};
  EXPECT_EQ(PredictStep(launches, rates).total(), 5 + 2 + 1);
  launches[1].bytes = 9;
  const StepPrediction longer = PredictStep(launches, rates);
  EXPECT_EQ(longer.total(), 9 + 2 + 1);
  EXPECT_EQ(longer.seconds[static_cast<size_t>(StepPart::kSound)], 4);
}

TEST(StepPrediction, AProductTakesWholeWavesOfTiles) {
  const GpuRates rates{.product_flops = 132.0 * 2 * 128 * 256, .bytes = 1e30, .multiprocessors = 132};
  const auto seconds = [&](int64_t m, int64_t n) {
    return PredictStep({{{.kernel = "product", .m = m, .n = n, .k = 1}}}, rates).total();
  };
  EXPECT_DOUBLE_EQ(seconds(128 * 132, 256), 1);
  EXPECT_DOUBLE_EQ(seconds(128 * 132 + 1, 256), 2);
  EXPECT_DOUBLE_EQ(seconds(128 * 66, 257), 1);
  EXPECT_DOUBLE_EQ(seconds(128 * 132, 32), 0.25);
}

}  // namespace
}  // namespace kinora
