// JobStore::CancelAndDelete: a job is cancelled, and gone when it has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kLease = absl::Seconds(30);

class JobDeletion : public testing::Test {
 protected:
  JobDeletion() { Open(); }

  void Open() {
    store_.reset();
    auto opened = SqliteJobStore::Open(directory_.File("jobs.db"), {.max_lost_groups = 2}, clock_,
                                       [this](const v1::VideoEvent& event) { heard_.push_back(event); });
    KINORA_CHECK(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  JobId Create() {
    return WaitFor<Created>([&](auto done) { store_->Create({}, {}, 0, std::move(done)); })->video.id();
  }
  Attempt Claim(const JobId& id) {
    const auto claimed = WaitFor<Claimed>([&](auto done) { store_->Claim(id, "me", kLease, std::move(done)); });
    KINORA_CHECK(claimed.ok()) << claimed.status();
    return claimed->attempt;
  }
  absl::StatusOr<bool> CancelAndDelete(const JobId& id) {
    return WaitFor<bool>([&](auto done) { store_->CancelAndDelete(id, std::move(done)); });
  }
  absl::StatusOr<v1::Video> Get(const JobId& id) {
    return WaitFor<v1::Video>([&](auto done) { store_->Get(id, std::move(done)); });
  }
  absl::StatusOr<v1::Video> Cancel(const JobId& id) {
    return WaitFor<v1::Video>([&](auto done) { store_->Cancel(id, std::move(done)); });
  }
  absl::Status Delete(const JobId& id) {
    return WaitForStatus([&](auto done) { store_->Delete(id, std::move(done)); });
  }
  absl::Status Finish(const Attempt& attempt, v1::Video::State state) {
    Outcome outcome;
    outcome.state = state;
    return WaitForStatus([&](auto done) { store_->Finish(attempt, outcome, std::move(done)); });
  }
  absl::StatusOr<v1::Video> Requeue(const Attempt& attempt) {
    return WaitFor<v1::Video>([&](auto done) { store_->Requeue(attempt, {.why = "restarted"}, std::move(done)); });
  }
  std::vector<JobId> Sweep() {
    const auto hidden =
        WaitFor<std::vector<JobId>>([&](auto done) { store_->SweepExpired(clock_.Now(), std::move(done)); });
    KINORA_CHECK(hidden.ok()) << hidden.status();
    return *hidden;
  }
  // The job is gone, its last event has said so, and its artifacts can be removed.
  void ExpectDeleted(const JobId& id, v1::Video::State state) {
    const absl::Status gone = Get(id).status();
    EXPECT_THAT(gone, StatusIs(absl::StatusCode::kNotFound));
    EXPECT_EQ(ErrorReason(gone), "");  // not EXPIRED
    ASSERT_TRUE(heard_.back().has_terminal());
    EXPECT_EQ(heard_.back().terminal().id(), id);
    EXPECT_EQ(heard_.back().terminal().state(), state);
    EXPECT_TRUE(DeletedAtEnd(heard_.back().terminal()));
    EXPECT_THAT(Sweep(), ElementsAre(id));
    EXPECT_THAT(CancelAndDelete(id), StatusIs(absl::StatusCode::kNotFound));
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  std::vector<v1::VideoEvent> heard_;  // from the store's writer thread; read after a call has returned
  std::unique_ptr<SqliteJobStore> store_;
};

TEST_F(JobDeletion, AQueuedJobIsGoneAtOnce) {
  const JobId id = Create();
  EXPECT_THAT(CancelAndDelete(id), IsOkAndHolds(true));
  ExpectDeleted(id, v1::Video::CANCELLED);
}

TEST_F(JobDeletion, ARunningJobIsGoneWhenItsRunHasEnded) {
  const JobId id = Create();
  const Attempt attempt = Claim(id);
  EXPECT_THAT(CancelAndDelete(id), IsOkAndHolds(false));
  EXPECT_THAT(CancelAndDelete(id), IsOkAndHolds(false));
  EXPECT_EQ(Get(id)->state(), v1::Video::RUNNING);
  EXPECT_EQ(Cancel(id)->state(), v1::Video::RUNNING);
  EXPECT_THAT(Delete(id), StatusIs(absl::StatusCode::kFailedPrecondition));
  KINORA_ASSERT_OK_AND_ASSIGN(const Lease lease,
                              WaitFor<Lease>([&](auto done) { store_->Renew(attempt, kLease, std::move(done)); }));
  EXPECT_TRUE(lease.cancel_requested);
  EXPECT_THAT(Sweep(), IsEmpty());
  EXPECT_THAT(Finish(attempt, v1::Video::CANCELLED), IsOk());
  ExpectDeleted(id, v1::Video::CANCELLED);
}

TEST_F(JobDeletion, AJobThatEndsInAnotherWayBeforeItsCancelIsGoneToo) {
  for (const v1::Video::State state : {v1::Video::COMPLETED, v1::Video::FAILED}) {
    const JobId id = Create();
    const Attempt attempt = Claim(id);
    EXPECT_THAT(CancelAndDelete(id), IsOkAndHolds(false));
    EXPECT_THAT(Finish(attempt, state), IsOk());
    ExpectDeleted(id, state);
    ASSERT_THAT(WaitForStatus([&](auto done) { store_->Purge(id, std::move(done)); }), IsOk());
  }
  const JobId lost = Create();
  const Attempt attempt = Claim(lost);
  EXPECT_THAT(Cancel(lost), IsOk());
  EXPECT_THAT(CancelAndDelete(lost), IsOkAndHolds(false));  // after a cancel without it
  EXPECT_EQ(Requeue(attempt)->state(), v1::Video::CANCELLED);
  ExpectDeleted(lost, v1::Video::CANCELLED);
}

TEST_F(JobDeletion, ARestartBetweenTheCancelAndTheEndChangesNothing) {
  const JobId id = Create(), other = Create();
  const Attempt attempt = Claim(id), others = Claim(other);
  EXPECT_THAT(CancelAndDelete(id), IsOkAndHolds(false));
  EXPECT_THAT(Cancel(other), IsOk());
  Open();
  EXPECT_EQ(Get(id)->state(), v1::Video::RUNNING);
  KINORA_ASSERT_OK_AND_ASSIGN(
      const auto jobs, WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store_->Unfinished(std::move(done)); }));
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_THAT(Requeue(others), IsOk());
  EXPECT_FALSE(DeletedAtEnd(heard_.back().terminal()));
  EXPECT_THAT(Requeue(jobs[0].attempt), IsOk());
  ExpectDeleted(id, v1::Video::CANCELLED);
  EXPECT_EQ(Get(other)->state(), v1::Video::CANCELLED);  // it was only cancelled
  EXPECT_THAT(Requeue(attempt), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(JobDeletion, AJobThatHasEndedIsHiddenAsByDelete) {
  const JobId id = Create();
  EXPECT_THAT(Cancel(id), IsOk());
  EXPECT_FALSE(DeletedAtEnd(*Get(id)));
  const size_t heard = heard_.size();
  EXPECT_THAT(CancelAndDelete(id), IsOkAndHolds(true));
  EXPECT_THAT(Get(id), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(heard_.size(), heard);  // it ended only once
  EXPECT_THAT(CancelAndDelete("nobody"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody")));
}

}  // namespace
}  // namespace kinora
