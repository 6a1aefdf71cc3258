// The last step that a job reached is kept, however the job ends.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

class ReachedStepTest : public DispatcherTest {
 protected:
  // Reports step 3 of 8 for the run.
  void ReachStep(const std::shared_ptr<RecordingLink>& link, const v1::Run& run) {
    v1::WorkerMessage message;
    message.mutable_stage()->set_video_id(run.video_id());
    message.mutable_stage()->set_attempt(run.attempt());
    message.mutable_stage()->set_stage(v1::STAGE_DENOISE);
    message.mutable_stage()->set_total_steps(8);
    dispatcher_->Receive(link, message);
    message.mutable_step()->set_video_id(run.video_id());
    message.mutable_step()->set_attempt(run.attempt());
    message.mutable_step()->set_stage(v1::STAGE_DENOISE);
    message.mutable_step()->set_step(3);
    message.mutable_step()->set_total_steps(8);
    message.mutable_step()->set_fraction(0.25);
    message.mutable_step()->set_remaining_seconds(7);
    dispatcher_->Receive(link, message);
  }
  void CancelAt(const std::shared_ptr<RecordingLink>& link, const JobId& id) {
    CancelInStore(id);
    dispatcher_->CancelRun(id);
    EXPECT_EQ(link->Next().cancel().video_id(), id);
  }
  static void ExpectStepThree(const v1::Progress& reached) {
    EXPECT_EQ(reached.stage(), "denoise");
    EXPECT_EQ(reached.step(), 3);
    EXPECT_EQ(reached.total_steps(), 8);
    EXPECT_EQ(reached.fraction(), 0.25);
    EXPECT_FALSE(reached.has_remaining());
  }
};

TEST_F(ReachedStepTest, TheStartOfAStageSaysHowFarTheRunIs) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*link);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto watch, hub_.Subscribe(id, [] {}));
  v1::WorkerMessage message;
  v1::StageMark& mark = *message.mutable_stage();
  mark.set_video_id(id);
  mark.set_attempt(1);
  mark.set_stage(v1::STAGE_DENOISE);
  mark.set_part(2);
  mark.set_fraction(0.125);
  mark.set_remaining_seconds(35);
  dispatcher_->Receive(link, message);
  Settle();
  int stages = 0;
  while (const auto event = watch->Next()) {
    if (!event->has_stage()) continue;
    ++stages;
    EXPECT_EQ(event->stage().stage(), "denoise_2");
    EXPECT_EQ(event->stage().fraction(), 0.125);
    EXPECT_EQ(event->stage().remaining().seconds(), 35);
  }
  EXPECT_EQ(stages, 1);
  watch->Close();
}

TEST_F(ReachedStepTest, IsKeptByAJobThatIsCancelledOrFails) {
  const auto link = JoinGroup("a");
  for (const absl::Status& end : {absl::CancelledError("at step 3"), absl::InternalError("the device is hot")}) {
    const JobId id = Submit();
    const v1::Run run = AwaitRun(*link);
    ReachStep(link, run);
    if (absl::IsCancelled(end)) CancelAt(link, id);
    End(link, run, end);
    ExpectStepThree(AwaitState(id, absl::IsCancelled(end) ? v1::Video::CANCELLED : v1::Video::FAILED).progress());
  }
}

TEST_F(ReachedStepTest, IsKeptByACancelledJobWhoseGroupIsLost) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  ReachStep(link, AwaitRun(*link));
  CancelAt(link, id);
  dispatcher_->Disconnect(link, absl::OkStatus());
  ExpectStepThree(AwaitState(id, v1::Video::CANCELLED).progress());
}

TEST_F(ReachedStepTest, IsKeptByAJobThatLosesItsLastGroupAndForgottenByOneThatWaitsAgain) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 2; ++attempt) {
    const auto link = JoinGroup(absl::StrCat("incarnation ", attempt));
    ReachStep(link, AwaitRun(*link));
    dispatcher_->Disconnect(link, absl::OkStatus());
    if (attempt == 1) {
      EXPECT_FALSE(AwaitState(id, v1::Video::QUEUED, 2).has_progress());
    }
  }
  ExpectStepThree(AwaitState(id, v1::Video::FAILED).progress());
}

}  // namespace
}  // namespace kinora
