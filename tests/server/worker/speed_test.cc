#include "server/worker/speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

using testing::SizeIs;

v1::StageSpeed Stage(const std::string& kind, double flops, double seconds = 0) {
  v1::StageSpeed stage;
  stage.set_kind(kind);
  stage.set_flops(flops);
  stage.set_tokens(static_cast<int64_t>(flops / 1e6));
  stage.set_launches(100);
  stage.set_seconds(seconds);
  return stage;
}

v1::RunSpeed RunOf(std::initializer_list<v1::StageSpeed> stages) {
  v1::RunSpeed run;
  for (const v1::StageSpeed& stage : stages) *run.add_stages() = stage;
  return run;
}

TEST(Speed, KnowsNothingBeforeItsFirstRun) {
  const Speed speed;
  EXPECT_EQ(speed.Seconds(Stage("denoise", 1e12)), 0);
  EXPECT_EQ(speed.Seconds(RunOf({Stage("denoise", 1e12)})), 0);
}

TEST(Speed, KindsAreFittedApartAndARunTakesTheirSum) {
  Speed speed;
  speed.Observe(RunOf({Stage("denoise", 1e12, 10), Stage("decode_video", 1e12, 2)}));
  EXPECT_NEAR(speed.Seconds(Stage("denoise", 2e12)), 20, 0.2);
  EXPECT_NEAR(speed.Seconds(Stage("decode_video", 1e12)), 2, 0.02);
  EXPECT_NEAR(speed.Seconds(RunOf({Stage("denoise", 1e12), Stage("decode_video", 1e12)})), 12, 0.1);
}

TEST(Speed, AKindThatWasNeverSeenTakesWhatItsFlopsTookElsewhere) {
  Speed speed;
  speed.Observe(RunOf({Stage("denoise", 3e12, 10), Stage("decode_video", 1e12, 2)}));
  EXPECT_NEAR(speed.Seconds(Stage("upsample", 1e12)), 3, 1e-9);
}

TEST(Speed, AStageThatWasNotTimedTeachesNothing) {
  Speed speed;
  speed.ObserveWarmUp(RunOf({Stage("denoise", 1e12, 10), Stage("finalize", 0)}));
  EXPECT_EQ(speed.Seconds(Stage("finalize", 0)), 0);
  EXPECT_NEAR(speed.Seconds(Stage("denoise", 1e12)), 10, 0.1);
}

TEST(Speed, RunsOutweighTheWarmUp) {
  Speed speed;
  speed.ObserveWarmUp(RunOf({Stage("decode_video", 1e12, 1)}));  // without writing a file
  for (int i = 0; i < 3; ++i) speed.Observe(RunOf({Stage("decode_video", 1e12, 2)}));
  EXPECT_NEAR(speed.Seconds(Stage("decode_video", 1e12)), 2, 0.1);
}

TEST(Speed, WhatTheFrontendRemembersIsOlderThanWhatWasSeenHere) {
  v1::SpeedHistory past;
  for (int i = 0; i < 40; ++i) *past.add_runs() = RunOf({Stage("denoise", 1e12, 5)});  // from a slower build
  Speed remembers, seen_first;
  remembers.Remember(past);
  EXPECT_NEAR(remembers.Seconds(Stage("denoise", 1e12)), 5, 0.1);
  for (int i = 0; i < 20; ++i) seen_first.Observe(RunOf({Stage("denoise", 1e12, 1)}));
  seen_first.Remember(past);
  EXPECT_NEAR(seen_first.Seconds(Stage("denoise", 1e12)), 1, 0.2);
}

TEST(Speed, APlanBecomesItsStagesAndTheFileAtTheEnd) {
  RunPlan plan;
  plan.stages.push_back({.kind = StageKind::kEncode, .tokens = 20});
  plan.stages.push_back({.kind = StageKind::kDenoise, .part = 1, .tokens = 300});
  plan.stages.back().cost = {.flops = 1e9, .bytes = 7, .launches = 40};
  plan.stages.push_back({.kind = StageKind::kDenoise, .part = 2, .tokens = 900});
  plan.stages.push_back({.kind = StageKind::kDecodeVideo, .tokens = 64});
  const v1::RunSpeed run = ToRunSpeed(plan, {{"denoise_1", 1.5}, {"denoise_2", 2.5}, {"finalize", 0.01}});
  ASSERT_THAT(run.stages(), SizeIs(5));
  EXPECT_EQ(run.stages(1).kind(), "denoise");
  EXPECT_EQ(run.stages(1).flops(), 1e9);
  EXPECT_EQ(run.stages(1).tokens(), 300);
  EXPECT_EQ(run.stages(1).launches(), 40);
  EXPECT_EQ(run.stages(1).seconds(), 1.5);
  EXPECT_EQ(run.stages(2).kind(), "denoise");
  EXPECT_EQ(run.stages(2).seconds(), 2.5);
  EXPECT_EQ(run.stages(3).seconds(), 0);
  EXPECT_EQ(run.stages(4).kind(), "finalize");
  EXPECT_EQ(run.stages(4).launches(), 1);
  EXPECT_EQ(run.stages(4).tokens(), 64);
  EXPECT_EQ(run.stages(4).seconds(), 0.01);
}

}  // namespace
}  // namespace kinora
