#include "server/worker/stage_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kinora {
namespace {

// A machine with 200 GFLOP/s, 2 µs per token and 5 µs per launch.
double Truth(const StageSize& s) { return s.flops / 2e11 + s.tokens * 2e-6 + s.launches * 5e-6; }

// Denoising: products grow with the tokens, attention with their square, launches only with the steps.
StageSize Denoising(double tokens, double steps) {
  return {
      .flops = steps * (1e8 + 2e6 * tokens + 300 * tokens * tokens), .tokens = steps * tokens, .launches = steps * 300};
}

StageObservation Took(const StageSize& size, double factor = 1) {
  return {.size = size, .seconds = factor * Truth(size)};
}

double Error(const StageFit& fit, const StageSize& size) { return std::abs(fit.Seconds(size) / Truth(size) - 1); }

TEST(StageFit, OfNothingEverySizeTakesNoTime) {
  EXPECT_EQ(StageFit({}).Seconds(Denoising(100, 10)), 0);
  const StageSize none;
  EXPECT_EQ(StageFit({{.size = none, .seconds = 1}, {.size = Denoising(10, 1), .seconds = 0}}).Seconds({1, 1, 1}), 0);
  EXPECT_EQ(StageFit({{.size = {-1, 2, 3}, .seconds = 1}}).Seconds({1, 1, 1}), 0);
}

TEST(StageFit, ExactTimesAreExplainedFromTheSmallestToTheLargest) {
  const StageFit fit({Took(Denoising(8, 2)), Took(Denoising(100, 4)), Took(Denoising(4000, 8))});
  for (const double tokens : {8., 30., 500., 4000.}) {
    for (const double steps : {2., 30.}) EXPECT_LT(Error(fit, Denoising(tokens, steps)), 0.03) << tokens;
  }
  EXPECT_LT(Error(fit, Denoising(20000, 30)), 0.1);
}

TEST(StageFit, OneObservationIsScaledByItsFlops) {
  const StageFit fit({Took(Denoising(64, 8))});
  const StageSize once = Denoising(64, 8), twice = Denoising(64, 16);
  EXPECT_NEAR(fit.Seconds(once), Truth(once), 0.01 * Truth(once));
  EXPECT_NEAR(fit.Seconds(twice), 2 * Truth(once), 0.02 * Truth(once));
}

// Fitting FLOPs alone would count the launch time of small runs as arithmetic: it estimated 673 s instead of 91 s.
TEST(StageFit, SmallRunsDoNotMakeALargeOneSlow) {
  const StageFit fit({Took(Denoising(8, 2)), Took(Denoising(27, 2)), Took(Denoising(64, 30))});
  EXPECT_LT(Error(fit, Denoising(4096, 30)), 0.15);
}

TEST(StageFit, AKindThatHasNoFlopsIsFittedToo) {
  const StageSize small{.flops = 0, .tokens = 10, .launches = 1}, large{.flops = 0, .tokens = 1000, .launches = 1};
  const StageFit fit({{.size = small, .seconds = 0.011}, {.size = large, .seconds = 0.02}});
  EXPECT_NEAR(fit.Seconds(small), 0.011, 0.001);
  EXPECT_NEAR(fit.Seconds(large), 0.02, 0.001);
}

TEST(StageFit, NoTimeIsEverNegative) {
  // A larger run was faster; a straight line through both would become negative.
  const StageFit fit({{.size = Denoising(10, 10), .seconds = 2}, {.size = Denoising(1000, 10), .seconds = 1}});
  for (const double tokens : {1., 1e2, 1e4, 1e6}) EXPECT_GE(fit.Seconds(Denoising(tokens, 1)), 0);
}

TEST(StageFit, OneRunThatWasHeldUpOrCutShortMovesTheOthersLittle) {
  for (const double factor : {0.1, 5.}) {
    std::vector<StageObservation> runs = {Took(Denoising(8, 2)), Took(Denoising(64, 2))};
    for (const double tokens : {30., 60., 250., 1000., 1500., 4000.}) runs.push_back(Took(Denoising(tokens, 20)));
    runs.push_back(Took(Denoising(700, 20), factor));
    const StageFit fit(runs);
    for (const double tokens : {50., 300., 4000.}) EXPECT_LT(Error(fit, Denoising(tokens, 25)), 0.15) << factor;
  }
}

TEST(StageFit, HeavierObservationsCountForMore) {
  std::vector<StageObservation> runs;
  runs.reserve(15);
  for (int i = 0; i < 10; ++i) runs.push_back(Took(Denoising(100 + 50 * i, 10), 3));  // from a slower build
  for (StageObservation& run : runs) run.weight = 0.1;
  for (int i = 0; i < 5; ++i) runs.push_back(Took(Denoising(100 + 100 * i, 10)));
  EXPECT_LT(Error(StageFit(runs), Denoising(400, 10)), 0.1);
}

// The accuracy required of estimates: after three runs of mixed sizes, with times that vary by 5%.
TEST(StageFit, AfterTwoWarmUpsAndThreeRunsMostAreWithinAFewPercent) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.05);
  std::uniform_real_distribution<double> unit(0, 1);
  const auto any = [&] { return Denoising(std::exp(3 + 6 * unit(random)), std::floor(4 + 30 * unit(random))); };
  std::vector<double> errors;
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::vector<StageObservation> runs;
    for (const double tokens : {8., 64.}) runs.push_back(Took(Denoising(tokens, 2), 1 + noise(random)));
    for (StageObservation& warm_up : runs) warm_up.weight = 0.2;
    for (int i = 0; i < 3; ++i) runs.push_back(Took(any(), 1 + noise(random)));
    const StageFit fit(runs);
    for (int i = 0; i < 10; ++i) errors.push_back(Error(fit, any()));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.05);
  EXPECT_LT(errors[errors.size() * 95 / 100], 0.2);
}

}  // namespace
}  // namespace kinora
