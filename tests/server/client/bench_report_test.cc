#include "server/client/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// A clip that denoises in two steps; times in seconds.
v1::Video Clip(int64_t begin, int64_t seconds, double denoise) {
  v1::Video video;
  video.mutable_start_time()->set_seconds(begin);
  video.mutable_end_time()->set_seconds(begin + seconds);
  (*video.mutable_usage()->mutable_stage_seconds())["denoise"] = denoise;
  (*video.mutable_usage()->mutable_stage_seconds())["encode"] = 0.25;
  v1::Resolved::Stage& stage = *video.mutable_resolved()->add_stages();
  for (const double sigma : {1.0, 0.5, 0.0}) stage.add_sigmas(sigma);
  return video;
}

TEST(BenchReport, TakesMediansAndTheTimeOfAllTogether) {
  // Two groups in parallel: 30 s for four clips of 10 to 20 s.
  const BenchReport report = ReportOf({Clip(0, 10, 4), Clip(0, 12, 6), Clip(10, 20, 10), Clip(12, 14, 8)});
  EXPECT_EQ(report.clips, 4);
  EXPECT_EQ(report.steps, 2);
  EXPECT_DOUBLE_EQ(report.clip_seconds.median, 13);
  EXPECT_DOUBLE_EQ(report.clip_seconds.least, 10);
  EXPECT_DOUBLE_EQ(report.clip_seconds.most, 20);
  EXPECT_DOUBLE_EQ(report.step_seconds.median, 3.5);
  EXPECT_DOUBLE_EQ(report.clips_per_hour, 480);
  EXPECT_THAT(report.stage_seconds, ElementsAre(Pair("denoise", 7.0), Pair("encode", 0.25)));
  const auto json = nlohmann::json::parse(BenchJson(report));
  EXPECT_EQ(json["step_seconds"]["median"], 3.5);
  EXPECT_EQ(json["stage_seconds"]["denoise"], 7);
  EXPECT_THAT(BenchText(report), HasSubstr("per step       3.500 s median, 2.000 to 5.000 s\n"));
}

TEST(BenchReport, OneClipIsItsOwnMedianAndOneWithoutStepsHasNone) {
  v1::Video clip = Clip(5, 2, 1);
  clip.clear_resolved();
  const BenchReport report = ReportOf({clip});
  EXPECT_DOUBLE_EQ(report.clip_seconds.median, 2);
  EXPECT_DOUBLE_EQ(report.clips_per_hour, 1800);
  EXPECT_FALSE(nlohmann::json::parse(BenchJson(report)).contains("step_seconds"));
  EXPECT_THAT(BenchText(report), testing::Not(HasSubstr("per step")));
}

}  // namespace
}  // namespace kinora
