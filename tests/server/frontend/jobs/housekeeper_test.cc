#include "server/frontend/jobs/housekeeper.h"

#include <gtest/gtest.h>

#include "server/common/directory_artifact_store.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

class HousekeeperTest : public testing::Test {
 protected:
  HousekeeperTest() {
    store_ = *SqliteJobStore::Open(":memory:", {.max_lost_groups = 2, .default_ttl = absl::Hours(1)}, clock_,
                                   [this](const v1::VideoEvent& event) {
                                     absl::MutexLock lock(&mu_);
                                     if (event.has_terminal()) ended_.push_back(event.terminal());
                                   });
    artifacts_ = *DirectoryArtifactStore::At(directory_.path());
  }
  ~HousekeeperTest() override { store_->Flush(); }

  void MakeHousekeeper() {
    housekeeper_ = std::make_unique<Housekeeper>(
        *store_, *artifacts_, hub_, clock_,
        [this](const JobId& id) {
          absl::MutexLock lock(&mu_);
          cancelled_.push_back(id);
        },
        HousekeeperOptions{.sweep_interval = absl::Minutes(1), .disconnect_grace = absl::Seconds(30)});
  }
  JobId Create() {
    return WaitFor<Created>([&](auto done) { store_->Create({}, {}, 0, std::move(done)); })->video.id();
  }
  JobId CreateEnded() {
    JobId id = Create();
    EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Cancel(id, std::move(done)); }), IsOk());
    WriteFile(directory_.File("x"), "bytes");
    EXPECT_THAT(artifacts_->Put(id + "/1/video.mp4", directory_.File("x")), IsOk());
    return id;
  }
  bool Exists(const JobId& id) { return std::filesystem::exists(directory_.File(id)); }
  void AwaitGone(const JobId& id) {
    while (Exists(id)) std::this_thread::yield();
  }

  FakeClock clock_;
  TemporaryDirectory directory_;
  EventHub hub_{clock_, absl::Hours(1), 10};
  absl::Mutex mu_;
  std::vector<JobId> cancelled_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::Video> ended_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<SqliteJobStore> store_;
  std::unique_ptr<DirectoryArtifactStore> artifacts_;
  std::unique_ptr<Housekeeper> housekeeper_;
};

TEST_F(HousekeeperTest, ArtifactsGoWithTheirJobWhenItsTimeIsOverAndNotBefore) {
  const JobId id = CreateEnded();
  MakeHousekeeper();
  clock_.AwaitWaiters(2);  // the hub's heartbeats and the housekeeper
  clock_.Advance(absl::Minutes(59));
  clock_.AwaitWaiters(2);
  store_->Flush();
  EXPECT_TRUE(Exists(id));
  clock_.Advance(absl::Minutes(2));
  AwaitGone(id);
  EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Get(id, std::move(done)); }),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(HousekeeperTest, WhatACrashLeftBetweenRecordAndArtifactIsRemovedAtTheStart) {
  const JobId id = CreateEnded();
  ASSERT_THAT(WaitForStatus([&](Finished done) { store_->Delete(id, std::move(done)); }), IsOk());
  EXPECT_TRUE(Exists(id));
  MakeHousekeeper();
  AwaitGone(id);
}

TEST_F(HousekeeperTest, AJobDeletedAsItEndedIsRemovedWithoutASweepAndAnyOtherStays) {
  MakeHousekeeper();
  clock_.AwaitWaiters(2);  // the hub's heartbeats and the housekeeper, whose first sweep is over
  const JobId running = Create(), ended = CreateEnded();
  const auto claimed =
      WaitFor<Claimed>([&](auto done) { store_->Claim(running, "me", absl::Seconds(30), std::move(done)); });
  ASSERT_THAT(claimed, IsOk());
  EXPECT_THAT(WaitFor<bool>([&](auto done) { store_->CancelAndDelete(running, std::move(done)); }),
              IsOkAndHolds(false));
  WriteFile(directory_.File("x"), "bytes");
  ASSERT_THAT(artifacts_->Put(running + "/1/video.mp4", directory_.File("x")), IsOk());
  ASSERT_THAT(WaitForStatus([&](auto done) { store_->Finish(claimed->attempt, {}, std::move(done)); }), IsOk());
  store_->Flush();
  absl::MutexLock lock(&mu_);
  ASSERT_EQ(ended_.size(), 2u);
  for (const v1::Video& video : ended_) housekeeper_->JobEnded(video);
  AwaitGone(running);
  EXPECT_TRUE(Exists(ended));
}

TEST_F(HousekeeperTest, AJobWhoseClientLeftIsCancelledAfterTheGraceUnlessWatched) {
  MakeHousekeeper();
  const JobId left = Create(), watched = Create();
  KINORA_ASSERT_OK_AND_ASSIGN(auto subscription, hub_.Subscribe(watched, [] {}));
  housekeeper_->ClientLeft(left);
  housekeeper_->ClientLeft(watched);
  clock_.AwaitWaiters(2);
  clock_.Advance(absl::Seconds(29));
  clock_.AwaitWaiters(2);
  {
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(cancelled_.empty());
  }
  clock_.Advance(absl::Seconds(1));
  const auto one = [this] {
    mu_.AssertHeld();
    return !cancelled_.empty();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&one));
  EXPECT_THAT(cancelled_, testing::ElementsAre(left));
}

}  // namespace
}  // namespace kinora
