#include "server/worker/remaining_time.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

constexpr Stage kEncode{StageKind::kEncode}, kDenoise{StageKind::kDenoise}, kFinalize{StageKind::kFinalize};

class RemainingTimeTest : public testing::Test {
 protected:
  RemainingTimeTest() {
    plan_.stages.push_back({.kind = StageKind::kEncode, .cost = {.flops = 100}});
    plan_.stages.push_back({.kind = StageKind::kDenoise, .steps = 4, .cost = {.flops = 900}});
  }
  RemainingTime Expecting(double encode, double denoise, double finalize) {
    return {plan_,
            [=](Stage stage) {
              return stage == kEncode ? encode : stage == kDenoise ? denoise : stage == kFinalize ? finalize : 0;
            },
            clock_};
  }
  RunEstimate After(double seconds, RemainingTime& time, const Progress& progress) {
    clock_.Advance(absl::Seconds(seconds));
    return time.At(progress);
  }

  FakeClock clock_;
  RunPlan plan_;
};

TEST_F(RemainingTimeTest, BeginsAsTheEstimateAndKeepsToItWhileTheRunDoes) {
  RemainingTime time = Expecting(10, 80, 10);
  EXPECT_DOUBLE_EQ(After(0, time, {.stage = kEncode}).remaining_seconds, 100);
  EXPECT_DOUBLE_EQ(After(10, time, {.stage = kDenoise, .total_steps = 4}).remaining_seconds, 90);
  for (int step = 1; step <= 4; ++step) {
    const RunEstimate estimate = After(20, time, {.stage = kDenoise, .step = step, .total_steps = 4});
    EXPECT_DOUBLE_EQ(estimate.remaining_seconds, 90 - 20 * step);
    EXPECT_DOUBLE_EQ(estimate.fraction, 0.1 + 0.2 * step);
  }
  EXPECT_DOUBLE_EQ(After(0, time, {.stage = kFinalize}).remaining_seconds, 10);
}

TEST_F(RemainingTimeTest, FollowsThePaceOfTheRunButNotAllOfASlowStart) {
  RemainingTime time = Expecting(10, 80, 10);
  time.At({.stage = kEncode});
  EXPECT_DOUBLE_EQ(After(30, time, {.stage = kDenoise, .total_steps = 4}).remaining_seconds, 90 * 40.0 / 20);
  EXPECT_DOUBLE_EQ(After(40, time, {.stage = kDenoise, .step = 1, .total_steps = 4}).remaining_seconds, 70 * 80.0 / 40);
}

TEST_F(RemainingTimeTest, IsNotSlowedByStagesOutsideThePlan) {
  RemainingTime time = Expecting(10, 80, 10);
  EXPECT_EQ(time.At({.stage = {StageKind::kPutOnLoras}}).fraction, 0);
  EXPECT_DOUBLE_EQ(After(500, time, {.stage = kEncode}).remaining_seconds, 100);
  After(10, time, {.stage = {StageKind::kPutOnLoras}});
  EXPECT_DOUBLE_EQ(After(500, time, {.stage = kDenoise, .total_steps = 4}).remaining_seconds, 90);
}

TEST_F(RemainingTimeTest, CountsOperationsWhereNothingIsExpectedAndWaitsForThePace) {
  RemainingTime time = Expecting(0, 0, 0);
  EXPECT_LT(After(0, time, {.stage = kEncode}).remaining_seconds, 0);
  const RunEstimate estimate = After(5, time, {.stage = kDenoise, .total_steps = 4});
  EXPECT_DOUBLE_EQ(estimate.fraction, 0.1);
  EXPECT_DOUBLE_EQ(estimate.remaining_seconds, 45);
  EXPECT_DOUBLE_EQ(After(0, time, {.stage = kFinalize}).fraction, 1);
}

TEST_F(RemainingTimeTest, ItsFractionNeverFalls) {
  RemainingTime time = Expecting(10, 80, 10);
  EXPECT_DOUBLE_EQ(time.At({.stage = kDenoise, .step = 4, .total_steps = 4}).fraction, 0.9);
  EXPECT_DOUBLE_EQ(time.At({.stage = kDenoise, .step = 2, .total_steps = 4}).fraction, 0.9);
  EXPECT_DOUBLE_EQ(time.At({.stage = kDenoise, .step = 9, .total_steps = 4}).fraction, 1);
}

TEST_F(RemainingTimeTest, OfAPlanWithoutCostsIsUnknown) {
  plan_ = {};
  RemainingTime time = Expecting(0, 0, 0);
  const RunEstimate estimate = After(5, time, {.stage = kFinalize});
  EXPECT_EQ(estimate.fraction, 0);
  EXPECT_LT(estimate.remaining_seconds, 0);
}

// What an earlier attempt has done is done from the beginning, and does not make this attempt seem fast.
TEST_F(RemainingTimeTest, OfARunThatContinuesCountsOnlyWhatIsLeft) {
  const ResumePoint from{.stage = 1, .step = 3, .values = {}};
  const auto expected = [](Stage stage) { return stage == kDenoise ? 80.0 : 10.0; };
  RemainingTime time(plan_, expected, clock_, &from);
  const RunEstimate begin = After(0, time, {.stage = kEncode});
  EXPECT_NEAR(begin.fraction, 0.6, 1e-9);
  EXPECT_NEAR(begin.remaining_seconds, 40, 1e-9);
  const RunEstimate denoise = After(10, time, {.stage = kDenoise, .total_steps = 4});
  EXPECT_NEAR(denoise.fraction, 0.7, 1e-9);
  EXPECT_NEAR(denoise.remaining_seconds, 30, 1e-9);
  EXPECT_DOUBLE_EQ(time.FractionAt({.stage = kDenoise, .step = 4, .total_steps = 4}), 0.9);
  const RunEstimate last = After(20, time, {.stage = kDenoise, .step = 4, .total_steps = 4});
  EXPECT_NEAR(last.fraction, 0.9, 1e-9);
  EXPECT_NEAR(last.remaining_seconds, 10, 1e-9);
}

TEST_F(RemainingTimeTest, OfARunThatContinuesInALaterStageHoldsThePassedStages) {
  plan_.stages[1].part = 1;
  plan_.stages.push_back({.kind = StageKind::kUpsample});
  plan_.stages.push_back({.kind = StageKind::kDenoise, .part = 2, .steps = 2});
  plan_.stages.push_back({.kind = StageKind::kDecodeVideo});
  const ResumePoint from{.stage = 3, .step = 2, .values = {}};  // all of the second stage
  RemainingTime time(
      plan_, [](Stage) { return 10.0; }, clock_, &from);
  const RunEstimate begin = After(0, time, {.stage = kEncode});
  EXPECT_NEAR(begin.fraction, 0.5, 1e-9);
  EXPECT_NEAR(begin.remaining_seconds, 30, 1e-9);  // encode, decode and finalize
  const RunEstimate decode = After(10, time, {.stage = {StageKind::kDecodeVideo}});
  EXPECT_NEAR(decode.fraction, 4.0 / 6, 1e-12);
  EXPECT_NEAR(decode.remaining_seconds, 20, 1e-9);
}

}  // namespace
}  // namespace kinora
