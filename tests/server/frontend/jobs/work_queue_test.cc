// WorkQueue's contract, on JobQueue with a store.
#include "server/frontend/jobs/work_queue.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

class WorkQueueTest : public testing::Test {
 protected:
  WorkQueueTest() {
    std::filesystem::create_directory(directory_.File("artifacts"));
    JobCommitterOptions options;
    KINORA_CHECK(options.watch.Add(directory_.File("artifacts")).ok());
    auto opened = SqliteJobStore::Open(
        directory_.File("jobs.db"), {}, clock_, [](const v1::VideoEvent&) {}, std::move(options));
    KINORA_CHECK(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    queue_.SetStore(*store_);
  }

  JobId Submit(const std::string& model, int priority = 0) {
    v1::CreateVideoRequest request;
    request.set_model(model);
    request.mutable_scheduling()->set_priority(priority);
    const auto created =
        WaitFor<Created>([&](auto done) { store_->Create(request, request.generation(), 0, std::move(done)); });
    KINORA_CHECK(created.ok()) << created.status();
    KINORA_CHECK(queue_.Reserve().ok());
    queue_.Push(ToQueuedJob(created->video, request.scheduling()));
    clock_.Advance(absl::Seconds(1));
    return created->video.id();
  }

  // Claims for idle groups, each of which runs one model.
  absl::StatusOr<std::optional<WorkClaim>> ClaimNext(const std::map<std::string, std::string>& group_of_model) {
    WorkRequest request{.owner = "me", .lease = absl::Seconds(30), .group_for = {}};
    request.group_for = [group_of_model](const QueuedJob& job) {
      const auto group = group_of_model.find(job.model);
      return group == group_of_model.end() ? "" : group->second;
    };
    return WaitFor<std::optional<WorkClaim>>([&](auto done) { queue_.ClaimNext(request, std::move(done)); });
  }
  // "<group> <job>", or what came instead.
  std::string Claim(const std::map<std::string, std::string>& group_of_model) {
    const auto claim = ClaimNext(group_of_model);
    if (!claim.ok()) return absl::StatusCodeToString(claim.status().code());
    return claim->has_value() ? absl::StrCat((*claim)->group, " ", (*claim)->job.id) : "nothing";
  }

  FakeClock clock_;
  TemporaryDirectory directory_;
  JobQueue queue_{100};
  std::unique_ptr<SqliteJobStore> store_;
};

TEST_F(WorkQueueTest, AClaimTakesTheFirstJobThatAGroupCanRun) {
  const JobId low = Submit("m", -1), first = Submit("m"), second = Submit("m"), other = Submit("n", 9);
  const auto claim = ClaimNext({{"m", "group of m"}});
  ASSERT_THAT(claim, IsOk());
  ASSERT_TRUE(claim->has_value());
  EXPECT_EQ((*claim)->job.id, first);
  EXPECT_EQ((*claim)->group, "group of m");
  EXPECT_EQ((*claim)->claimed.video.state(), v1::Video::RUNNING);
  EXPECT_EQ((*claim)->claimed.attempt.owner, "me");
  EXPECT_EQ(queue_.Position(first), 0);
  EXPECT_EQ(queue_.Position(second), 2);
  EXPECT_EQ(Claim({{"m", "a"}, {"n", "b"}}), "b " + other);
  EXPECT_EQ(Claim({{"m", "a"}}), "a " + second);
  EXPECT_EQ(Claim({{"m", "a"}}), "a " + low);
  EXPECT_EQ(Claim({{"m", "a"}, {"n", "b"}}), "nothing");
}

TEST_F(WorkQueueTest, AClaimPassesOverJobsThatNoLongerWaitInTheStore) {
  const JobId cancelled = Submit("m"), deleted = Submit("m"), other = Submit("n"), waits = Submit("m");
  for (const JobId& id : {cancelled, deleted}) {
    ASSERT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Cancel(id, std::move(done)); }), IsOk());
  }
  ASSERT_THAT(WaitForStatus([&](auto done) { store_->Delete(deleted, std::move(done)); }), IsOk());
  EXPECT_EQ(Claim({{"m", "a"}}), "a " + waits);
  EXPECT_EQ(queue_.size(), 1);
  EXPECT_EQ(queue_.Position(other), 1);
}

TEST_F(WorkQueueTest, AJobStillWaitsAfterTheStoreHasFailed) {
  int news = 0;
  queue_.SetPushListener([&] { ++news; });
  const JobId first = Submit("m"), second = Submit("m");
  std::filesystem::remove(directory_.File("artifacts"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Claim({{"m", "a"}}), "UNAVAILABLE");
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(queue_.Position(first), 1);
  EXPECT_EQ(queue_.Position(second), 2);
  EXPECT_EQ(news, 2) << "that it still waits is no news: a claim would fail again at once";
}

TEST_F(WorkQueueTest, ConcurrentClaimsTakeEachJobOnce) {
  constexpr int kJobs = 20;
  for (int i = 0; i < kJobs; ++i) Submit("m");
  absl::Mutex mu;
  std::multiset<JobId> claimed;
  for (int i = 0; i < 2 * kJobs; ++i) {
    queue_.ClaimNext({.owner = "me", .lease = absl::Seconds(30), .group_for = [](const QueuedJob&) { return "a"; }},
                     [&](const absl::StatusOr<std::optional<WorkClaim>>& claim) {
                       absl::MutexLock lock(&mu);
                       claimed.insert(claim.ok() && claim->has_value() ? (*claim)->job.id : "nothing");
                     });
  }
  store_->Flush();
  absl::MutexLock lock(&mu);
  EXPECT_EQ(claimed.size(), 2u * kJobs);
  EXPECT_EQ(claimed.count("nothing"), 1u * kJobs);
  EXPECT_EQ(std::set<JobId>(claimed.begin(), claimed.end()).size(), kJobs + 1u);
}

}  // namespace
}  // namespace kinora
