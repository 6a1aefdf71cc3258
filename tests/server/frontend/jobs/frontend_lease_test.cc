// Frontends' leases, and what is found of a frontend whose lease is over.
#include "server/frontend/jobs/frontend_lease.h"

#include <gtest/gtest.h>

#include <thread>

#include "server/frontend/jobs/sqlite_frontend_records.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr absl::Duration kLease = absl::Seconds(30);

// A store that frontend "old" has used, and that frontend "new" uses now.
class FrontendLeaseTest : public testing::Test {
 protected:
  FrontendLeaseTest() {
    store_ = *SqliteJobStore::Open(":memory:", {.frontend = "old"}, clock_, [](const v1::VideoEvent&) {});
    frontends_ = std::make_unique<SqliteFrontendRecords>(store_->file(), clock_);
  }
  ~FrontendLeaseTest() override {
    if (lease_ != nullptr) lease_->Stop();
    store_->Flush();
  }

  JobId Create(bool detach = false) {
    v1::CreateVideoRequest request;
    request.set_detach(detach);
    return WaitFor<Created>([&](auto done) { store_->Create(request, {}, 0, std::move(done)); })->video.id();
  }
  Attempt Claim(const JobId& id, const FrontendId& owner) {
    return WaitFor<Claimed>([&](auto done) { store_->Claim(id, owner, kLease, std::move(done)); })->attempt;
  }
  void Put(const FrontendId& id) {
    ASSERT_THAT(WaitForStatus([&](auto done) {
                  frontends_->PutFrontend({.id = id, .address = "here"}, kLease, std::move(done));
                }),
                IsOk());
  }
  std::vector<JobId> LostRuns() {
    std::vector<JobId> ids;
    const auto lost = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store_->LostRuns("new", std::move(done)); });
    for (const UnfinishedJob& job : *lost) ids.push_back(job.video.id());
    return ids;
  }
  std::vector<JobId> TakeLostClients(const FrontendId& id = "new") {
    return *WaitFor<std::vector<JobId>>([&](auto done) { frontends_->TakeLostClients(id, std::move(done)); });
  }
  void HoldLease() {
    FrontendLeaseOptions options{.frontend = {.id = "new", .address = "127.0.0.1:1"}, .lease = kLease};
    options.on_lost_run = [this](const UnfinishedJob& job) {
      absl::MutexLock lock(&mu_);
      lost_runs_.push_back(job.video.id());
    };
    options.on_lost_client = [this](const JobId& id) {
      absl::MutexLock lock(&mu_);
      lost_clients_.push_back(id);
    };
    lease_ = std::make_unique<FrontendLease>(*frontends_, *store_, clock_, std::move(options));
  }
  bool Found(const std::vector<JobId>& ids, size_t count) {
    absl::MutexLock lock(&mu_);
    return ids.size() >= count;
  }
  void AdvanceUntilFound(const std::vector<JobId>& ids, size_t count) {
    while (!Found(ids, count)) {
      clock_.AwaitWaiters(1);
      clock_.Advance(absl::Seconds(1));
      store_->Flush();
    }
  }

  FakeClock clock_;
  std::unique_ptr<SqliteJobStore> store_;
  std::unique_ptr<SqliteFrontendRecords> frontends_;
  absl::Mutex mu_;
  std::vector<JobId> lost_runs_, lost_clients_;
  std::unique_ptr<FrontendLease> lease_;
};

TEST_F(FrontendLeaseTest, ARunIsLostOnceItsLeaseIsOverUnlessItIsOnesOwn) {
  const JobId theirs = Create(), ours = Create(), waits = Create();
  const Attempt attempt = Claim(theirs, "old");
  Claim(ours, "new");
  clock_.Advance(kLease - absl::Seconds(1));
  EXPECT_THAT(LostRuns(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(LostRuns(), ElementsAre(theirs));
  ASSERT_THAT(WaitFor<Lease>([&](auto done) { store_->Renew(attempt, kLease, std::move(done)); }), IsOk());
  EXPECT_THAT(LostRuns(), IsEmpty());
  EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Requeue(attempt, {.if_lost = true}, std::move(done)); }),
              StatusIs(absl::StatusCode::kAborted));
}

// So that a restart on a state directory waits for no lease: no time passes here.
TEST_F(FrontendLeaseTest, AFrontendThatKnowsTheOthersToBeGoneFindsWhatTheyLeftAtOnce) {
  Put("old");
  const JobId run = Create(/*detach=*/true), tied = Create(), both = Create();
  Claim(run, "old");
  Claim(both, "old");
  EXPECT_THAT(LostRuns(), IsEmpty());
  EXPECT_THAT(TakeLostClients(), IsEmpty());
  EndOtherLeases(*frontends_, "new");
  EXPECT_THAT(LostRuns(), ElementsAre(run, both));
  EXPECT_THAT(TakeLostClients(), UnorderedElementsAre(tied, both));
}

TEST_F(FrontendLeaseTest, AFrontendsOwnLeasesGoOn) {
  store_.reset();
  store_ = *SqliteJobStore::Open(":memory:", {.frontend = "new"}, clock_, [](const v1::VideoEvent&) {});
  frontends_ = std::make_unique<SqliteFrontendRecords>(store_->file(), clock_);
  Put("new");
  const JobId id = Create();
  const Attempt attempt = Claim(id, "new");
  EndOtherLeases(*frontends_, "new");
  EXPECT_THAT(TakeLostClients("other"), IsEmpty());
  EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Requeue(attempt, {.if_lost = true}, std::move(done)); }),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(FrontendLeaseTest, AJobsClientIsTakenByOneFrontendAndOnlyWhileTheJobIsUnfinished) {
  Put("old");
  const JobId tied = Create(), ended = Create();
  Create(/*detach=*/true);
  EXPECT_THAT(TakeLostClients(), IsEmpty());
  ASSERT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Cancel(ended, std::move(done)); }), IsOk());
  Put("new");
  clock_.Advance(kLease - absl::Seconds(1));
  Put("new");
  EXPECT_THAT(TakeLostClients(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(TakeLostClients(), ElementsAre(tied));
  EXPECT_THAT(TakeLostClients("third"), IsEmpty()) << "the new frontend holds it";
  clock_.Advance(kLease);
  EXPECT_THAT(TakeLostClients("third"), ElementsAre(tied));
}

TEST_F(FrontendLeaseTest, TheScanGoesOnAndKeepsTheFrontendsOwnLease) {
  const JobId first = Create();
  Claim(first, "old");
  HoldLease();
  while (!Found(lost_clients_, 1)) std::this_thread::yield();  // at once: "old" has no lease
  AdvanceUntilFound(lost_runs_, 1);
  EXPECT_THAT(lost_runs_, ElementsAre(first));
  Put("old");
  const JobId second = Create();
  for (const absl::Time later = clock_.Now() + kLease - absl::Seconds(1); clock_.Now() < later;) {
    clock_.AwaitWaiters(1);
    clock_.Advance(absl::Seconds(1));
    store_->Flush();
  }
  EXPECT_THAT(TakeLostClients("third"), IsEmpty()) << "the leases of both live";
  AdvanceUntilFound(lost_clients_, 2);
  EXPECT_THAT(lost_clients_, ElementsAre(first, second));
}

}  // namespace
}  // namespace kinora
