#include "server/frontend/jobs/job_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;

QueuedJob Job(const std::string& id, int priority, int second, absl::Time deadline = absl::InfiniteFuture()) {
  return {
      .id = id, .model = "m", .priority = priority, .create_time = absl::FromUnixSeconds(second), .deadline = deadline};
}

void Push(JobQueue& queue, const QueuedJob& job) {
  ASSERT_THAT(queue.Reserve(), IsOk());
  queue.Push(job);
}

std::vector<std::string> PopAll(JobQueue& queue) {
  std::vector<std::string> ids;
  while (auto job = queue.Pop([](const QueuedJob&) { return true; })) ids.push_back(job->id);
  return ids;
}

TEST(JobQueue, HigherPriorityFirstThenOlderFirst) {
  JobQueue queue(10);
  Push(queue, Job("late", 0, 3));
  Push(queue, Job("low", -1, 0));
  Push(queue, Job("early", 0, 1));
  Push(queue, Job("high", 5, 9));
  queue.Requeue(Job("again", 0, 2));  // keeps its age
  EXPECT_EQ(queue.Position("high"), 1);
  EXPECT_EQ(queue.Position("again"), 3);
  EXPECT_EQ(queue.Position("nobody"), 0);
  EXPECT_THAT(PopAll(queue), ElementsAre("high", "early", "again", "late", "low"));
}

// Positions equal the order in which jobs leave the queue, for many orders of insertion and removal.
TEST(JobQueue, APlaceIsTheNumberOfJobsThatGoBeforeAndOne) {
  std::mt19937 random(1);
  JobQueue queue(1000);
  std::vector<std::string> there;
  for (int i = 0; i < 300; ++i) {
    const std::string id = absl::StrCat("job", i);
    const bool dies = random() % 3 == 0;
    Push(queue, Job(id, static_cast<int>(random() % 5) - 2, static_cast<int>(random() % 50),
                    dies ? absl::FromUnixSeconds(random() % 100) : absl::InfiniteFuture()));
    there.push_back(id);
    if (random() % 4 != 0) continue;
    std::swap(there[random() % there.size()], there.back());
    EXPECT_TRUE(queue.Remove(there.back()));
    EXPECT_EQ(queue.Position(there.back()), 0);
    there.pop_back();
  }
  const auto expired = queue.TakeExpired(absl::FromUnixSeconds(60));
  EXPECT_GT(expired.size(), 10u);
  for (const QueuedJob& job : expired) std::erase(there, job.id);
  EXPECT_GT(queue.NextDeadline(), absl::FromUnixSeconds(60));
  std::map<std::string, int> places;
  for (const std::string& id : there) places[id] = queue.Position(id);
  const std::vector<std::string> left = PopAll(queue);
  ASSERT_EQ(left.size(), there.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_EQ(places[left[i]], static_cast<int>(i) + 1) << left[i];
  EXPECT_EQ(queue.NextDeadline(), absl::InfiniteFuture());
}

TEST(JobQueue, PopSkipsWhatCannotRunNow) {
  JobQueue queue(10);
  Push(queue, Job("a", 1, 1));
  Push(queue, Job("b", 0, 2));
  const auto job = queue.Pop([](const QueuedJob& candidate) { return candidate.id == "b"; });
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->id, "b");
  EXPECT_FALSE(queue.Pop([](const QueuedJob&) { return false; }).has_value());
  EXPECT_EQ(queue.size(), 1);
}

TEST(JobQueue, IsBoundedCountingPlacesThatAreReserved) {
  JobQueue queue(2);
  Push(queue, Job("a", 0, 1));
  ASSERT_THAT(queue.Reserve(), IsOk());
  const absl::Status full = queue.Reserve();
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("queue_capacity: 2")));
  EXPECT_EQ(ErrorReason(full), "QUEUE_FULL");
  queue.Unreserve();
  EXPECT_THAT(queue.Reserve(), IsOk());
  queue.Push(Job("b", 0, 2));
  queue.Requeue(Job("c", 0, 0));  // accepted jobs are never rejected
  EXPECT_EQ(queue.size(), 3);
}

TEST(JobQueue, AClosedQueueRefusesNewJobsAndStillTakesBackOldOnes) {
  JobQueue queue(2);
  Push(queue, Job("a", 0, 1));
  queue.Close();
  EXPECT_EQ(ErrorReason(queue.Reserve()), "DRAINING");
  queue.Requeue(Job("b", 0, 2));
  EXPECT_THAT(PopAll(queue), ElementsAre("a", "b"));
}

TEST(JobQueue, GivesUpJobsWhoseDeadlinePassed) {
  JobQueue queue(10);
  Push(queue, Job("a", 0, 1, absl::FromUnixSeconds(100)));
  Push(queue, Job("b", 0, 2, absl::FromUnixSeconds(50)));
  Push(queue, Job("c", 0, 3));
  EXPECT_EQ(queue.NextDeadline(), absl::FromUnixSeconds(50));
  EXPECT_TRUE(queue.TakeExpired(absl::FromUnixSeconds(49)).empty());
  const auto expired = queue.TakeExpired(absl::FromUnixSeconds(50));
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, "b");
  EXPECT_EQ(queue.Position("c"), 2);
}

TEST(JobQueue, TellsWhatWaitsAndNoMoreOnceAndEachPush) {
  std::map<int, int> depth;
  int pushes = 0;
  JobQueue queue(10, [&](const QueuedJob& job, int change) { depth[job.priority] += change; });
  queue.SetPushListener([&] { ++pushes; });
  Push(queue, Job("a", 1, 1));
  Push(queue, Job("b", 1, 2));
  Push(queue, Job("c", 0, 3));
  queue.Requeue(Job("c", 0, 3));  // it is already queued
  EXPECT_EQ(depth[1], 2);
  EXPECT_EQ(depth[0], 1);
  EXPECT_EQ(pushes, 4);
  EXPECT_TRUE(queue.Remove("a"));
  EXPECT_FALSE(queue.Remove("a"));
  PopAll(queue);
  EXPECT_EQ(depth[1], 0);
  EXPECT_EQ(depth[0], 0);
}

}  // namespace
}  // namespace kinora
