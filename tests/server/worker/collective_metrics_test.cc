#include "server/worker/collective_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/parallel/dry_communicator.h"
#include "tests/testing/allocations.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CollectiveMetrics, AnAxisThatTheMeshHasIsThereAtZeroAndNoOther) {
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.guidance = 2, .tokens = 2}));
  const CollectiveMetrics collectives(*mesh, metrics);
  for (const char* axis : {"guidance", "tokens", "world"}) {
    const std::string labels = std::string("{axis=\"") + axis + "\",op=\"all_gather\"}";
    EXPECT_THAT(page.Text(), AllOf(HasSubstr("kinora_collective_seconds_count" + labels + " 0"),
                                   HasSubstr("kinora_collective_wait_seconds_count" + labels + " 0"),
                                   HasSubstr("kinora_collective_bytes_total" + labels + " 0")));
  }
  EXPECT_THAT(page.Text(), Not(HasSubstr("axis=\"tensor\"")));
}

TEST(CollectiveMetrics, ACallIsASampleOfItsOwnSeriesAndAllocatesNothing) {
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tokens = 2, .tensor = 2}));
  CollectiveMetrics collectives(*mesh, metrics);
  const int64_t before = AllocationsOfThisThread();
  for (int i = 0; i < 2; ++i) {
    collectives.OnCollective(
        {.axis = MeshAxis::kTokens, .op = Collective::kAllToAll, .bytes = 100, .seconds = 0.75, .wait_seconds = 0.25});
  }
  EXPECT_EQ(AllocationsOfThisThread(), before);
  const std::string text = page.Text(), own = "{axis=\"tokens\",op=\"all_to_all\"}";
  EXPECT_THAT(text, AllOf(HasSubstr("kinora_collective_seconds_sum" + own + " 1.5"),
                          HasSubstr("kinora_collective_seconds_count" + own + " 2"),
                          HasSubstr("kinora_collective_wait_seconds_sum" + own + " 0.5"),
                          HasSubstr("kinora_collective_bytes_total" + own + " 200")));
  for (const char* other : {"{axis=\"tokens\",op=\"all_gather\"}", "{axis=\"tensor\",op=\"all_to_all\"}",
                            "{axis=\"world\",op=\"all_to_all\"}"}) {
    EXPECT_THAT(text, AllOf(HasSubstr(std::string("kinora_collective_seconds_count") + other + " 0"),
                            HasSubstr(std::string("kinora_collective_wait_seconds_count") + other + " 0"),
                            HasSubstr(std::string("kinora_collective_bytes_total") + other + " 0")));
  }
}

TEST(CollectiveMetrics, ARunIsASampleOfEachStageAndTheIdlenessOfItsDenoising) {
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tokens = 2}));
  CollectiveMetrics collectives(*mesh, metrics);
  const std::vector<StageUse> run = {
      {.stage = {StageKind::kEncode}, .seconds = 1, .wait_seconds = 0.5, .idle_seconds = 0.5},
      {.stage = {StageKind::kDenoise}, .seconds = 10, .wait_seconds = 2, .idle_seconds = 2.5}};
  collectives.OnRun(1, run);
  collectives.OnRun(1, run);
  EXPECT_THAT(page.Text(), AllOf(HasSubstr("kinora_rank_skew_seconds_count{stage=\"denoise\"} 2"),
                                 HasSubstr("kinora_rank_skew_seconds_sum{stage=\"denoise\"} 4"),
                                 HasSubstr("kinora_rank_skew_seconds_sum{stage=\"encode\"} 1"),
                                 HasSubstr("kinora_device_idle_ratio{rank=\"1\"} 0.25")));
}

TEST(CollectiveMetrics, StepsWithoutAGraphAreCountedByStageAndReason) {
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  CollectiveMetrics collectives(*Mesh::Single(), metrics);
  const std::vector<StageUse> run = {{.stage = {StageKind::kEncode}, .seconds = 1},
                                     {.stage = {StageKind::kDenoise}, .seconds = 1, .graph_misses = {1, 0, 7, 0, 0}}};
  collectives.OnRun(0, run);
  collectives.OnRun(0, run);
  EXPECT_THAT(page.Text(),
              AllOf(HasSubstr("kinora_graph_misses_total{reason=\"new_shape\",stage=\"denoise\"} 2\n"),
                    HasSubstr("kinora_graph_misses_total{reason=\"capture_failed\",stage=\"denoise\"} 14\n"),
                    HasSubstr("kinora_graph_misses_total{reason=\"out_of_memory\",stage=\"denoise\"} 0\n")));
}

TEST(CollectiveMetrics, TheSkewOfEveryStageThatRanksShareIsThereAtZero) {
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tokens = 2}));
  const CollectiveMetrics collectives(*mesh, metrics);
  for (const auto& [stage, name] : kStages) {
    const bool shared = stage.kind != StageKind::kReadInputs && stage.kind != StageKind::kFinalize;
    const std::string line = absl::StrCat("kinora_rank_skew_seconds_count{stage=\"", std::string(name), "\"} 0\n");
    EXPECT_EQ(page.Text().find(line) != std::string::npos, shared) << name;
  }
}

TEST(CollectiveMetrics, ARankAloneHasNoSkew) {
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  CollectiveMetrics collectives(*Mesh::Single(), metrics);
  collectives.OnRun(0, {{{.stage = {StageKind::kDenoise}, .seconds = 10, .wait_seconds = 0, .idle_seconds = 1}}});
  EXPECT_THAT(page.Text(), AllOf(Not(HasSubstr("kinora_rank_skew_seconds_count")),
                                 HasSubstr("kinora_device_idle_ratio{rank=\"0\"} 0.1")));
}

}  // namespace
}  // namespace kinora
