#include "server/common/metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "engine/base/fallbacks.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/version.h"
#include "server/common/build_version.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Returns the value of a series on a page, or -1 if it is missing.
double Value(const std::string& page, const std::string& series) {
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double value = 0;
    if (parts.first == series && absl::SimpleAtod(parts.second, &value)) return value;
  }
  return -1;
}

TEST(Metrics, SayWhatTheProcessUses) {
  const MetricsPage page;
  const std::string before = page.Text();
  EXPECT_NEAR(Value(before, "process_threads"), 1, 0);
  EXPECT_GT(Value(before, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(Value(before, "process_virtual_memory_bytes"), Value(before, "process_resident_memory_bytes"));
  const double start = Value(before, "process_start_time_seconds"), now = static_cast<double>(std::time(nullptr));
  EXPECT_LE(start, now + 1);
  EXPECT_GT(start, now - 3600);
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(Value(before, "process_max_fds"), static_cast<double>(files.rlim_cur));

  const FileDescriptor one(open("/dev/null", O_RDONLY | O_CLOEXEC)), two(open("/dev/null", O_RDONLY | O_CLOEXEC));
  absl::Notification seen;
  std::thread thread([&seen] { seen.WaitForNotification(); });
  timespec used{};
  while (used.tv_nsec < 50'000'000 && used.tv_sec == 0) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  const std::string after = page.Text();
  seen.Notify();
  thread.join();
  EXPECT_EQ(Value(after, "process_open_fds"), Value(before, "process_open_fds") + 2);
  EXPECT_EQ(Value(after, "process_threads"), 2);
  EXPECT_GE(Value(after, "process_cpu_seconds_total"), 0.03);
  EXPECT_LT(Value(after, "process_cpu_seconds_total"), 600);
  EXPECT_EQ(Value(after, "kinora_log_dropped_lines_total"), 0);
}

TEST(Metrics, CountFallbacksInAProcessWithACudaBackendOnly) {
  const MetricsPage page;
  const std::string series = "kinora_cuda_fallbacks_total{op=\"attention\",reason=\"refused\"}";
  EXPECT_EQ(page.Text().find("kinora_cuda_fallbacks_total"), std::string::npos);
  CountFallback("attention", "refused", 0);
  EXPECT_EQ(Value(page.Text(), series), 0);
  CountFallback("attention", "refused", 2);
  EXPECT_EQ(Value(page.Text(), series), 2);
}

TEST(Metrics, SayWhatTheProgramWasBuiltFrom) {
  MetricsPage page;
  RegisterBuildInfo(page.registry());
  const std::string text = page.Text();
  EXPECT_THAT(text, HasSubstr(absl::StrCat("kinora_build_info{backends=\"", kBuildBackends, "\",commit=\"",
                                           kBuildCommit, "\",cpu_path=\"")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("version=\"", kBuildVersion, "\"} 1\n")));
}

// Prometheus scrapes both, and adds up what has one name. Families without a series yet are not seen here.
TEST(Metrics, AFrontendsAndAWorkersHaveNamesOfTheirOwn) {
  const auto names = [](prometheus::Registry& registry) {
    std::set<std::string> found;
    for (const prometheus::MetricFamily& family : registry.Collect()) found.insert(family.name);
    return found;
  };
  MetricsPage of_frontend, of_worker;
  const FrontendMetrics frontend(of_frontend.registry());
  const WorkerMetrics worker(of_worker.registry());
  const std::set<std::string> ours = names(of_frontend.registry()), theirs = names(of_worker.registry());
  std::vector<std::string> shared;
  std::set_intersection(ours.begin(), ours.end(), theirs.begin(), theirs.end(), std::back_inserter(shared));
  EXPECT_THAT(ours, testing::Contains("kinora_resume_points_accepted_total"));
  EXPECT_THAT(theirs, testing::Contains("kinora_resume_points_total"));
  EXPECT_THAT(shared, testing::IsEmpty());
}

TEST(Metrics, AJobOfAnHourFallsIntoABucketOfItsOwn) {
  MetricsPage page;
  FrontendMetrics frontend(page.registry());
  WorkerMetrics worker(page.registry());
  frontend.queue_wait_seconds.Observe(4000);
  worker.stage_duration_seconds.Add({{"stage", "denoise"}}, StageBuckets()).Observe(80'000);
  const std::string text = page.Text();
  EXPECT_EQ(Value(text, "kinora_queue_wait_seconds_bucket{le=\"3600\"}"), 0);
  EXPECT_EQ(Value(text, "kinora_queue_wait_seconds_bucket{le=\"7200\"}"), 1);
  EXPECT_EQ(Value(text, "kinora_stage_duration_seconds_bucket{stage=\"denoise\",le=\"57600\"}"), 0);
  EXPECT_EQ(Value(text, "kinora_stage_duration_seconds_bucket{stage=\"denoise\",le=\"86400\"}"), 1);
}

}  // namespace
}  // namespace kinora
