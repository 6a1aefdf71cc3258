#include "server/render/render_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

TEST(RenderReportTest, TimesStagesAndSteps) {
  FakeClock clock;
  RenderTimes times(clock);
  times.Begin("load");
  clock.Advance(absl::Seconds(2));
  times.Report({.stage = {StageKind::kDenoise, 1}, .step = 0, .total_steps = 2});
  clock.Advance(absl::Seconds(3));
  times.Report({.stage = {StageKind::kDenoise, 1}, .step = 1, .total_steps = 2});
  clock.Advance(absl::Seconds(4));
  times.Report({.stage = {StageKind::kDenoise, 1}, .step = 2, .total_steps = 2});
  times.Report({.stage = {StageKind::kDecodeVideo}});
  clock.Advance(absl::Milliseconds(1500));
  times.End();
  ASSERT_EQ(times.stages().size(), 3u);
  EXPECT_EQ(times.stages()[0].seconds, 2);
  EXPECT_EQ(times.stages()[1].seconds, 7);
  EXPECT_THAT(times.stages()[1].step_seconds, testing::ElementsAre(3, 4));
  EXPECT_EQ(times.stages()[2].seconds, 1.5);

  RenderSummary summary{.file = "clip \"1\".mp4", .precision = "f32", .mesh = "1 rank"};
  summary.peak_process_bytes = int64_t{1} << 60;
  summary.peak_activation_bytes = 77 << 20;
  summary.planned_activation_bytes = 88 << 20;
  summary.planned_weight_bytes = 99;
  summary.effective.set_seed(~uint64_t{0});
  summary.effective.set_prompt("a \"fox\"");
  summary.effective.set_negative_prompt("");
  summary.collectives[static_cast<int>(Collective::kAllGather)] = {.calls = 5, .bytes = 640};
  const std::string line = RenderSummaryJson(summary, times);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["file"], "clip \"1\".mp4");
  EXPECT_EQ(json["seed"], "18446744073709551615");  // most readers would round a number
  EXPECT_EQ(json["generation"]["seed"], "18446744073709551615");
  EXPECT_EQ(json["generation"]["prompt"], "a \"fox\"");
  EXPECT_EQ(json["generation"]["negative_prompt"], "");
  EXPECT_EQ(json["generation"]["schedule_tokens"], 0);  // values of 0 are included
  EXPECT_EQ(json["seconds"]["total"], 10.5);
  EXPECT_EQ(json["seconds"]["load"], 2);
  EXPECT_EQ(json["step_seconds"]["denoise_1"], (std::vector<double>{3, 4}));
  EXPECT_EQ(json["collectives"]["all_gather"]["bytes"], "640");
  EXPECT_EQ(json["memory"]["measured"]["process_peak_bytes"], "1152921504606846976");
  EXPECT_EQ(json["memory"]["measured"]["activation_peak_bytes"], "80740352");
  EXPECT_EQ(json["memory"]["planned"]["activation_bytes"], "92274688");
  EXPECT_EQ(json["memory"]["planned"]["weight_bytes"], "99");
  EXPECT_THAT(RenderSummaryText(summary, times),
              testing::AllOf(testing::HasSubstr("seed 18446744073709551615, 10.5 s, memory: "),
                             testing::EndsWith(" and 77.0 MiB of activations measured, 88.0 MiB planned")));
}

}  // namespace
}  // namespace kinora
