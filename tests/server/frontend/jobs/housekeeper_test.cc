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
  void Put(const std::string& key) {
    WriteFile(directory_.File("x"), "bytes");
    EXPECT_THAT(artifacts_->Put(key, directory_.File("x")), IsOk());
  }
  Attempt Claim(const JobId& id) {
    return WaitFor<Claimed>([&](auto done) { store_->Claim(id, "me", absl::Seconds(30), std::move(done)); })->attempt;
  }
  absl::StatusOr<v1::Video> Requeue(const Attempt& attempt) {
    return WaitFor<v1::Video>([&](auto done) { store_->Requeue(attempt, {.why = "signal 9"}, std::move(done)); });
  }
  void PutPoint(const Attempt& attempt, const std::string& id) {
    v1::ResumePoint point;
    point.set_id(id);
    point.set_stage(v1::STAGE_DENOISE);
    EXPECT_THAT(WaitFor<std::optional<v1::ResumeMark>>(
                    [&](auto done) { store_->PutResumePoint(attempt, point, std::move(done)); }),
                IsOk());
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

// In the end nobody resumes a job, and what a lost attempt left is not listed.
TEST_F(HousekeeperTest, AJobThatEndsKeepsItsArtifactsOnly) {
  MakeHousekeeper();
  const JobId id = Create();
  for (const char* key : {"/1/video.mp4", "/1/resume-3", "/2/resume-5", "/2/video.mp4"}) Put(id + key);
  EXPECT_THAT(Requeue(Claim(id)), IsOk());
  Outcome outcome;
  outcome.artifacts.emplace_back().set_id("video.mp4");
  const Attempt second = Claim(id);
  ASSERT_THAT(WaitForStatus([&](auto done) { store_->Finish(second, outcome, std::move(done)); }), IsOk());
  store_->Flush();
  {
    absl::MutexLock lock(&mu_);
    housekeeper_->JobEnded(ended_.at(0));
  }
  AwaitGone(id + "/1/video.mp4");
  AwaitGone(id + "/1/resume-3");
  AwaitGone(id + "/2/resume-5");
  EXPECT_TRUE(Exists(id + "/2/video.mp4"));
}

TEST_F(HousekeeperTest, AStartDeletesTheResumePointsThatNoRecordNamesAndNoOther) {
  const JobId waiting = Create(), running = Create(), ended = CreateEnded(), unknown = "lost-with-its-record";
  Attempt attempt = Claim(waiting);
  PutPoint(attempt, "named");
  EXPECT_THAT(Requeue(attempt), IsOk());
  PutPoint(Claim(running), "named");
  for (const JobId& id : {waiting, running, ended, unknown}) {
    for (const char* key : {"/0/other", "/1/named", "/1/other", "/2/new"}) Put(id + key);
  }
  MakeHousekeeper();
  housekeeper_->Tidy();
  AwaitGone(ended + "/0/other");  // the last
  for (const JobId& id : {waiting, running}) {
    EXPECT_FALSE(Exists(id + "/0/other"));
    EXPECT_TRUE(Exists(id + "/1/named"));
    EXPECT_TRUE(Exists(id + "/2/new")) << "of an attempt that has begun since";
  }
  EXPECT_FALSE(Exists(waiting + "/1/other"));
  EXPECT_TRUE(Exists(running + "/1/other")) << "it may be an artifact of the running attempt";
  EXPECT_TRUE(Exists(unknown + "/1/named")) << "its record may be restored";
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
