#include "server/frontend/jobs/queue_metrics.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/job_queue.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

QueuedJob Job(const std::string& id, double estimated_seconds, const std::string& model = "m", int priority = 0) {
  return {.id = id,
          .model = model,
          .priority = priority,
          .create_time = absl::UnixEpoch(),
          .estimated_seconds = estimated_seconds};
}

v1::Video Ended(double seconds, v1::Video::State state = v1::Video::COMPLETED) {
  v1::Video video;
  video.set_model("m");
  video.set_state(state);
  *video.mutable_create_time() = ToProto(absl::UnixEpoch());
  *video.mutable_start_time() = ToProto(absl::UnixEpoch() + absl::Hours(1));  // it waited this long
  *video.mutable_end_time() = ToProto(absl::UnixEpoch() + absl::Hours(1) + absl::Seconds(seconds));
  return video;
}

class QueueMetricsTest : public testing::Test {
 protected:
  double Seconds(const std::string& model = "m") { return metrics_.queue_seconds.Add({{"model", model}}).Value(); }
  double Depth(int priority) { return metrics_.queue_depth.Add({{"priority", absl::StrCat(priority)}}).Value(); }

  prometheus::Registry registry_;
  FrontendMetrics metrics_{registry_};
  QueueMetrics waiting_{metrics_};
  JobQueue queue_{2000, [this](const QueuedJob& job, int change) { waiting_.Change(job, change); }};
};

TEST_F(QueueMetricsTest, AddUpTheEstimatesOfEachModelAndEndAtZero) {
  queue_.Requeue(Job("a", 12.5));
  queue_.Requeue(Job("b", 30.25, "m", 5));
  queue_.Requeue(Job("b", 30.25, "m", 5));  // counts as one wait
  queue_.Requeue(Job("c", 7, "n"));
  EXPECT_EQ(Seconds("m"), 42.75);
  EXPECT_EQ(Seconds("n"), 7);
  EXPECT_EQ(Depth(0), 2);
  EXPECT_EQ(Depth(5), 1);
  EXPECT_TRUE(queue_.Remove("a"));
  EXPECT_FALSE(queue_.Remove("a"));
  EXPECT_EQ(Seconds("m"), 30.25);
  while (queue_.Pop([](const QueuedJob&) { return true; })) {
  }
  EXPECT_EQ(Seconds("m"), 0);
  EXPECT_EQ(Seconds("n"), 0);
  EXPECT_EQ(Depth(0), 0);
  EXPECT_EQ(Depth(5), 0);
}

TEST_F(QueueMetricsTest, LeaveNothingBehindOfManyJobs) {
  for (int i = 0; i < 1000; ++i) queue_.Requeue(Job(absl::StrCat(i), 0.1 + 1e-3 * i));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(queue_.Remove(absl::StrCat((7 * i) % 1000)));
  EXPECT_EQ(Seconds(), 0);
}

TEST_F(QueueMetricsTest, CountAMinuteForAJobWithoutAnEstimateOfAModelThatHasNotRun) {
  queue_.Requeue(Job("a", 0));
  queue_.Requeue(Job("b", 5));
  EXPECT_EQ(Seconds(), 65);
}

TEST_F(QueueMetricsTest, CountTheMedianOfTheLastTwentyRunsForAJobWithoutAnEstimate) {
  queue_.Requeue(Job("a", 0));
  waiting_.Observe(Ended(10));
  EXPECT_EQ(Seconds(), 10) << "jobs that wait already, too";
  waiting_.Observe(Ended(20));
  EXPECT_EQ(Seconds(), 15);
  waiting_.Observe(Ended(1000, v1::Video::FAILED));
  waiting_.Observe(Ended(1000, v1::Video::CANCELLED));
  EXPECT_EQ(Seconds(), 15);
  for (int i = 0; i < 20; ++i) waiting_.Observe(Ended(i < 10 ? 3 : 5));
  EXPECT_EQ(Seconds(), 4) << "the first two are forgotten";
  queue_.Requeue(Job("b", 0));
  EXPECT_EQ(Seconds(), 8);
}

TEST_F(QueueMetricsTest, AreNeverZeroWhileAJobWaits) {
  for (int i = 0; i < 20; ++i) waiting_.Observe(Ended(0));
  queue_.Requeue(Job("a", 0));
  EXPECT_GT(Seconds(), 0);
  EXPECT_TRUE(queue_.Remove("a"));
  queue_.Requeue(Job("b", 1e-9));
  EXPECT_GT(Seconds(), 0);
}

}  // namespace
}  // namespace kinora
