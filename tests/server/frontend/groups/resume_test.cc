// Runs that continue where an earlier attempt was, and the files of their resume points.
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "server/frontend/groups/resume_rules.h"
#include "tests/server/frontend/groups/resume_fixture.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class ResumeTest : public ResumeFixture {};

TEST_F(ResumeTest, AfterALossTheJobContinuesAtItsPoint) {
  const JobId id = Submit();
  const auto first = JoinGroup("a");
  const v1::Run run = AwaitRun(*first);
  EXPECT_FALSE(run.has_resume_from());
  StorePoint(first, run, 3);
  Lose(first);
  const v1::Video queued = AwaitState(id, v1::Video::QUEUED, 2);
  EXPECT_EQ(queued.resume_point().ShortDebugString(), "stage: \"denoise\" step: 3 total_steps: 8 fraction: 0.375");
  const auto second = JoinGroup("b");
  const v1::Run again = AwaitRun(*second);
  EXPECT_EQ(again.attempt(), 2);
  EXPECT_EQ(again.resume_from().ShortDebugString(), PointAt(3).ShortDebugString());
  EXPECT_EQ(again.input_paths().at("resume"), KeyOf(run, 3));
  v1::Resolved resolved;
  resolved.set_resumed_from_step(3);
  resolved.set_resumed_from_stage("denoise");
  Resolve(second, again, resolved);
  End(second, again, absl::OkStatus());
  const v1::Video done = AwaitState(id, v1::Video::COMPLETED);
  EXPECT_EQ(done.resolved().resumed_from_step(), 3);
  EXPECT_FALSE(done.has_resume_point());
  EXPECT_THAT(page_.Text(), testing::AllOf(HasSubstr("kinora_resume_points_accepted_total 1\n"),
                                           HasSubstr("kinora_resumed_runs_total{outcome=\"resumed\"} 1\n")));
}

TEST_F(ResumeTest, APointReplacesTheOneBeforeAndItsFile) {
  const JobId id = Submit();
  const auto first = JoinGroup("a");
  const v1::Run run = AwaitRun(*first);
  StorePoint(first, run, 3);
  StorePoint(first, run, 5);
  EXPECT_EQ(StoredStep(id), 5);
  EXPECT_FALSE(IsThere(KeyOf(run, 3)));
  Lose(first);
  const auto second = JoinGroup("b");
  const v1::Run again = AwaitRun(*second);
  EXPECT_EQ(again.resume_from().step(), 5);
  StorePoint(second, again, 6);
  EXPECT_EQ(StoredStep(id), 6);
  EXPECT_FALSE(IsThere(KeyOf(run, 5)));
  EXPECT_TRUE(IsThere(KeyOf(again, 6)));
}

TEST_F(ResumeTest, AMarkWithoutItsWholeFileOrOfAnotherAttemptIsRefused) {
  const JobId id = Submit();
  const auto link = JoinGroup("a");
  const v1::Run run = AwaitRun(*link);
  Mark(link, run, PointAt(1));  // no file
  Write(KeyOf(run, 2), "half");
  Mark(link, run, PointAt(2));
  v1::ResumePoint elsewhere = PointAt(3);
  elsewhere.set_id("../../another/1/video.mp4");
  Mark(link, run, elsewhere);
  v1::Run other = run;
  other.set_attempt(2);
  StorePoint(link, other, 4);
  Lose(link);
  EXPECT_FALSE(AwaitState(id, v1::Video::QUEUED, 2).has_resume_point());
  EXPECT_FALSE(AwaitRun(*JoinGroup("b")).has_resume_from());
}

TEST_F(ResumeTest, APointThatARunDidNotGetBeyondIsDroppedWithItsFile) {
  const JobId id = Submit();
  const auto first = JoinGroup("a");
  const v1::Run run = AwaitRun(*first);
  StorePoint(first, run, 3);
  Lose(first);
  const auto second = JoinGroup("b");
  EXPECT_TRUE(AwaitRun(*second).has_resume_from());
  Lose(second);
  EXPECT_FALSE(AwaitState(id, v1::Video::QUEUED, 3).has_resume_point());
  EXPECT_FALSE(AwaitRun(*JoinGroup("c")).has_resume_from());
  Settle();
  EXPECT_FALSE(IsThere(KeyOf(run, 3)));
}

TEST_F(ResumeTest, ARunThatGotBeyondItsPointOrDidNotUseItDropsNothing) {
  const JobId id = Submit();
  const auto first = JoinGroup("a");
  StorePoint(first, AwaitRun(*first), 3);
  Lose(first);
  const auto second = JoinGroup("b");
  StorePoint(second, AwaitRun(*second), 5);  // beyond
  Lose(second);
  const auto third = JoinGroup("c");
  const v1::Run run = AwaitRun(*third);
  EXPECT_EQ(run.resume_from().step(), 5);
  v1::Resolved resolved;
  resolved.set_not_resumed_because("its model files have changed");
  Resolve(third, run, resolved);
  Lose(third);
  EXPECT_EQ(AwaitState(id, v1::Video::QUEUED, 4).resume_point().step(), 5);
  EXPECT_EQ(AwaitRun(*JoinGroup("d")).resume_from().step(), 5);
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_resumed_runs_total{outcome=\"began_anew\"} 1\n"));
}

// The mark may be the last word of the process.
TEST_F(ResumeTest, AWorkerThatLeavesMayStoreItsStateLastAndMayDoSoAgain) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto link = JoinGroup(absl::StrCat("incarnation ", attempt));
    const v1::Run run = AwaitRun(*link);
    EXPECT_EQ(run.resume_from().step(), attempt == 1 ? 0 : 4);
    if (attempt == 1) StorePoint(link, run, 4);
    Leave(link);
    EXPECT_EQ(AwaitState(id, v1::Video::QUEUED, attempt + 1).resume_point().step(), 4);
  }
}

TEST_F(ResumeTest, AJobWhosePointHasLostItsFileBeginsAnew) {
  const JobId id = Submit();
  const auto first = JoinGroup("a");
  const v1::Run run = AwaitRun(*first);
  StorePoint(first, run, 3);
  EXPECT_EQ(StoredStep(id), 3);
  std::filesystem::remove(absl::StrCat(files_->root(), "/", KeyOf(run, 3)));
  Lose(first);
  const v1::Run again = AwaitRun(*JoinGroup("b"));
  EXPECT_FALSE(again.has_resume_from());
  EXPECT_FALSE(again.input_paths().contains("resume"));
  EXPECT_EQ(StoredStep(id), 0);
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_resumed_runs_total{outcome=\"file_lost\"} 1\n"));
}

TEST_F(ResumeTest, ARestartedFrontendResumesWhatItsPredecessorLeftRunning) {
  const JobId id = Submit();
  const auto first = JoinGroup("a");
  StorePoint(first, AwaitRun(*first), 3);
  EXPECT_EQ(StoredStep(id), 3);
  StartDispatcher();  // the previous one leaves its job RUNNING, as in a crash
  RecoverAll();
  EXPECT_EQ(AwaitRun(*JoinGroup("b")).resume_from().step(), 3);
}

TEST_F(ResumeTest, ADrainHasARunStoreItsStateInTime) {
  const JobId id = Submit();
  const auto link = JoinGroup("a");
  const v1::Run run = AwaitRun(*link);
  Stage(link, run, v1::STAGE_DENOISE);
  Settle();
  absl::Notification drained;
  dispatcher_->BeginDrain(absl::Seconds(20), [&] { drained.Notify(); });
  Settle();  // it has begun
  clock_.Advance(absl::Seconds(14));
  Settle();
  EXPECT_TRUE(link->empty());
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(link->Next().cancel().keep_state());
  StorePoint(link, run, 3);
  End(link, run, absl::CancelledError("at step 3"));
  drained.WaitForNotification();
  const v1::Video queued = AwaitState(id, v1::Video::QUEUED, 2);
  EXPECT_EQ(queued.resume_point().step(), 3);
  EXPECT_EQ(queued.preemptions(), 0);
}

TEST_F(ResumeTest, ADrainLetsARunDecodeUntilItsEnd) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  Stage(link, run, v1::STAGE_DECODE_VIDEO);
  Settle();
  absl::Notification drained;
  dispatcher_->BeginDrain(absl::Seconds(20), [&] { drained.Notify(); });
  Settle();  // it has begun
  clock_.Advance(absl::Seconds(19));
  Settle();
  EXPECT_TRUE(link->empty());
  End(link, run, absl::OkStatus());
  drained.WaitForNotification();
  AwaitState(id, v1::Video::COMPLETED);
}

TEST_F(ResumeTest, ACancelWinsOverADrain) {
  const JobId id = Submit();
  const auto link = JoinGroup("a");
  const v1::Run run = AwaitRun(*link);
  Settle();
  absl::Notification drained;
  dispatcher_->BeginDrain(absl::Seconds(20), [&] { drained.Notify(); });
  Settle();  // it has begun
  clock_.Advance(absl::Seconds(16));
  EXPECT_TRUE(link->Next().cancel().keep_state());
  CancelInStore(id);
  dispatcher_->CancelRun(id);
  End(link, run, absl::CancelledError("at step 3"));
  drained.WaitForNotification();
  AwaitState(id, v1::Video::CANCELLED);
}

TEST(ResumeRules, OnlyAPointThatMayHaveKilledItsWorkerIsDropped) {
  v1::Resolved taken, declined;
  taken.set_resumed_from_stage("denoise_2");
  declined.set_not_resumed_because("another build");
  EXPECT_FALSE(LossDropsPoint(ResumeOffer::kNone));
  EXPECT_TRUE(LossDropsPoint(ResumeOffer::kMade)) << "it may die while it reads the point";
  EXPECT_TRUE(LossDropsPoint(AfterResolved(ResumeOffer::kMade, taken)));
  EXPECT_FALSE(LossDropsPoint(AfterResolved(ResumeOffer::kMade, declined)));
  EXPECT_EQ(AfterResolved(ResumeOffer::kNone, taken), ResumeOffer::kNone);
  EXPECT_EQ(AfterResolved(ResumeOffer::kTaken, declined), ResumeOffer::kTaken) << "said once";
}

TEST(ResumeRules, TwoStepsAndSomeSecondsAreLeftForTheStateButNeverHalfOfTheDrain) {
  EXPECT_EQ(TimeToStore(absl::Seconds(4), absl::Minutes(1)), absl::Seconds(13));
  EXPECT_EQ(TimeToStore(absl::Minutes(2), absl::Minutes(1)), absl::Seconds(30));
  EXPECT_EQ(TimeToStore(absl::Seconds(4), absl::ZeroDuration()), absl::ZeroDuration());
}

}  // namespace
}  // namespace kinora
