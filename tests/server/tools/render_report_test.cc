#include "server/tools/render_report.h"

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
  times.Report({.stage = "stage1", .step = 0, .total_steps = 2});
  clock.Advance(absl::Seconds(3));
  times.Report({.stage = "stage1", .step = 1, .total_steps = 2});
  clock.Advance(absl::Seconds(4));
  times.Report({.stage = "stage1", .step = 2, .total_steps = 2});
  times.Report({.stage = "decode"});
  clock.Advance(absl::Milliseconds(1500));
  times.End();
  ASSERT_EQ(times.stages().size(), 3u);
  EXPECT_EQ(times.stages()[0].seconds, 2);
  EXPECT_EQ(times.stages()[1].seconds, 7);
  EXPECT_THAT(times.stages()[1].step_seconds, testing::ElementsAre(3, 4));
  EXPECT_EQ(times.stages()[2].seconds, 1.5);

  RenderSummary summary{.file = "clip \"1\".mp4", .precision = "f32", .mesh = "1 rank", .peak_memory_bytes = 77};
  summary.effective.set_seed(~uint64_t{0});
  summary.effective.set_prompt("secret");
  summary.collectives[static_cast<int>(Collective::kAllGather)] = {.calls = 5, .bytes = 640};
  const std::string line = RenderSummaryJson(summary, times);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find("secret"), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["file"], "clip \"1\".mp4");
  EXPECT_EQ(json["seed"], ~uint64_t{0});
  EXPECT_EQ(json["seconds"]["total"], 10.5);
  EXPECT_EQ(json["seconds"]["load"], 2);
  EXPECT_EQ(json["step_seconds"]["stage1"], (std::vector<double>{3, 4}));
  EXPECT_EQ(json["collectives"]["all_gather"]["bytes"], 640);
  EXPECT_EQ(json["peak_memory_bytes"], 77);
}

TEST(RenderReportTest, PeakMemoryGrowsWithWhatIsTouched) {
  const int64_t before = PeakMemoryBytes();
  std::vector<char> touched(96 << 20, 1);
  EXPECT_GE(PeakMemoryBytes(), std::max<int64_t>(before, 96 << 20));
  EXPECT_EQ(touched.back(), 1);
}

}  // namespace
}  // namespace kinora
