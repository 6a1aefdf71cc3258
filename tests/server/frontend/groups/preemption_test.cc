// Jobs of a higher priority that interrupt runs.
#include "server/frontend/groups/preemption.h"

#include <gtest/gtest.h>

#include "tests/server/frontend/groups/resume_fixture.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class PreemptionTest : public ResumeFixture {
 protected:
  PreemptionTest() {
    preempt_after_ = absl::Minutes(1);
    StartDispatcher();
  }
  JobId SubmitWith(int priority) {
    v1::CreateVideoRequest request;
    request.mutable_scheduling()->set_priority(priority);
    return Submit(request);
  }
  // Whether the dispatcher says nothing more to the rank.
  bool IsSilent(RecordingLink& link) {
    Settle();
    return link.empty();
  }
  // Starts a run of a job of priority 0 that denoises for so long.
  v1::Run RunFor(const std::shared_ptr<RecordingLink>& link, double remaining_seconds) {
    low_ = SubmitWith(0);
    v1::Run run = AwaitRun(*link);
    Stage(link, run, v1::STAGE_DENOISE, remaining_seconds);
    Settle();
    return run;
  }
  void ExpectCancel(RecordingLink& link) { EXPECT_TRUE(link.Next().cancel().keep_state()); }
  void StopAt(const std::shared_ptr<RecordingLink>& link, const v1::Run& run, int step) {
    ExpectCancel(*link);
    StorePoint(link, run, step);
    End(link, run, absl::CancelledError("stopped"));
  }

  JobId low_;
};

TEST_F(PreemptionTest, AJobOfAHigherPriorityRunsAtOnceAndTheOtherContinuesLater) {
  const auto link = JoinGroup("a");
  const v1::Run run = RunFor(link, 1000);
  const JobId high = SubmitWith(5);
  StopAt(link, run, 3);
  const v1::Run urgent = AwaitRun(*link);
  EXPECT_EQ(urgent.video_id(), high);
  const v1::Video waiting = AwaitState(low_, v1::Video::QUEUED, 2);
  EXPECT_EQ(waiting.preemptions(), 1);
  EXPECT_EQ(waiting.resume_point().step(), 3);
  End(link, urgent, absl::OkStatus());
  const v1::Run again = AwaitRun(*link);
  EXPECT_EQ(again.video_id(), low_);
  EXPECT_EQ(again.resume_from().step(), 3);
  End(link, again, absl::OkStatus());
  EXPECT_EQ(AwaitState(low_, v1::Video::COMPLETED).preemptions(), 1);
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_preemptions_total 1\n"));
}

TEST_F(ResumeFixture, NothingIsPreemptedByDefault) {
  const auto link = JoinGroup("a");
  Submit();
  Stage(link, AwaitRun(*link), v1::STAGE_DENOISE, 1000);
  v1::CreateVideoRequest request;
  request.mutable_scheduling()->set_priority(10);
  Submit(request);
  Settle();
  EXPECT_TRUE(link->empty());
}

TEST_F(PreemptionTest, ARunThatEndsSoonGoesOnUntilItTurnsOutToBeLong) {
  const auto link = JoinGroup("a");
  const v1::Run run = RunFor(link, 59);
  SubmitWith(5);
  EXPECT_TRUE(IsSilent(*link));
  Stage(link, run, v1::STAGE_DENOISE, 61);
  ExpectCancel(*link);
}

TEST_F(PreemptionTest, ARunOfUnknownLengthCountsAsLong) {
  const auto link = JoinGroup("a");
  RunFor(link, -1);
  SubmitWith(5);
  ExpectCancel(*link);
}

TEST_F(PreemptionTest, AnEqualPriorityNeverPreempts) {
  const auto link = JoinGroup("a");
  RunFor(link, 1000);
  SubmitWith(0);
  SubmitWith(-1);
  EXPECT_TRUE(IsSilent(*link));
}

TEST_F(PreemptionTest, ARunThatDecodesIsNearlyDone) {
  const auto link = JoinGroup("a");
  const v1::Run run = RunFor(link, 50);
  Stage(link, run, v1::STAGE_DECODE_VIDEO, 1000);
  Settle();
  SubmitWith(5);
  EXPECT_TRUE(IsSilent(*link));
}

TEST_F(PreemptionTest, AJobIsPreemptedTwiceAtMost) {
  const auto link = JoinGroup("a");
  v1::Run run = RunFor(link, 1000);
  for (int times = 1; times <= kMostPreemptions; ++times) {
    SubmitWith(5);
    StopAt(link, run, times);
    const v1::Run urgent = AwaitRun(*link);
    EXPECT_EQ(AwaitState(low_, v1::Video::QUEUED, 1 + times).preemptions(), times);
    End(link, urgent, absl::OkStatus());
    run = AwaitRun(*link);
    EXPECT_EQ(run.video_id(), low_);
    Stage(link, run, v1::STAGE_DENOISE, 1000);
  }
  SubmitWith(5);
  EXPECT_TRUE(IsSilent(*link));
}

TEST_F(PreemptionTest, NoThirdJobTakesTheReservedPlaceUnlessItIsMoreUrgent) {
  const JobId older = SubmitWith(5);
  queue_.Remove(older);
  const QueuedJob third{.id = older, .model = "tiny", .priority = 5, .create_time = clock_.Now() - absl::Hours(1)};
  const auto link = JoinGroup("a");
  v1::Run run = RunFor(link, 1000);
  const JobId high = SubmitWith(5);
  ExpectCancel(*link);
  queue_.Requeue(third);
  EXPECT_EQ(queue_.Position(older), 1);
  End(link, run, absl::CancelledError("stopped"));
  run = AwaitRun(*link);
  EXPECT_EQ(run.video_id(), high);
  End(link, run, absl::OkStatus());
  run = AwaitRun(*link);
  EXPECT_EQ(run.video_id(), older);
  End(link, run, absl::OkStatus());
  run = AwaitRun(*link);
  EXPECT_EQ(run.video_id(), low_);
  Stage(link, run, v1::STAGE_DENOISE, 1000);
  SubmitWith(5);
  ExpectCancel(*link);
  const JobId urgent = SubmitWith(9);
  End(link, run, absl::CancelledError("stopped"));
  EXPECT_EQ(AwaitRun(*link).video_id(), urgent);
}

TEST_F(PreemptionTest, ARunThatEndsMeanwhileIsCompleted) {
  const auto link = JoinGroup("a");
  const v1::Run run = RunFor(link, 1000);
  const JobId high = SubmitWith(5);
  ExpectCancel(*link);
  End(link, run, absl::OkStatus());
  EXPECT_EQ(AwaitState(low_, v1::Video::COMPLETED).preemptions(), 0);
  EXPECT_EQ(AwaitRun(*link).video_id(), high);
}

TEST_F(PreemptionTest, AJobThatIsCancelledWhileItWaitsLeavesNothingReserved) {
  const auto link = JoinGroup("a");
  const v1::Run run = RunFor(link, 1000);
  const JobId high = SubmitWith(5);
  ExpectCancel(*link);
  CancelInStore(high);
  dispatcher_->CancelRun(high);
  StorePoint(link, run, 3);
  End(link, run, absl::CancelledError("stopped"));
  const v1::Run again = AwaitRun(*link);
  EXPECT_EQ(again.video_id(), low_);
  EXPECT_EQ(again.resume_from().step(), 3);
}

TEST_F(PreemptionTest, ACancelOfThePreemptedJobWins) {
  const auto link = JoinGroup("a");
  const v1::Run run = RunFor(link, 1000);
  SubmitWith(5);
  ExpectCancel(*link);
  CancelInStore(low_);
  dispatcher_->CancelRun(low_);
  End(link, run, absl::CancelledError("stopped"));
  EXPECT_EQ(AwaitState(low_, v1::Video::CANCELLED).preemptions(), 0);
}

TEST_F(PreemptionTest, ADeadlineOfThePreemptedJobWins) {
  const auto link = JoinGroup("a");
  v1::CreateVideoRequest request;
  request.mutable_scheduling()->mutable_deadline()->set_seconds(5);
  const JobId id = Submit(request);
  const v1::Run run = AwaitRun(*link);
  Stage(link, run, v1::STAGE_DENOISE, 1000);
  SubmitWith(5);
  ExpectCancel(*link);
  Pass(absl::Seconds(6), {link});
  End(link, run, absl::CancelledError("stopped"));
  EXPECT_EQ(FromRpcStatus(AwaitState(id, v1::Video::FAILED).error()).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(PreemptionTest, AGroupThatIsLostWhileItStopsHasLostItsJobAndTheHigherOneRunsElsewhere) {
  const auto link = JoinGroup("a");
  RunFor(link, 1000);
  const JobId high = SubmitWith(5);
  ExpectCancel(*link);
  Lose(link);
  EXPECT_EQ(AwaitState(low_, v1::Video::QUEUED, 2).preemptions(), 0);
  EXPECT_EQ(AwaitRun(*JoinGroup("b")).video_id(), high);
}

TEST_F(PreemptionTest, ARestartOfTheFrontendBetweenTheTwoForgetsTheReservationOnly) {
  const auto first = JoinGroup("a");
  const v1::Run run = RunFor(first, 1000);
  const JobId high = SubmitWith(5);
  ExpectCancel(*first);
  StorePoint(first, run, 3);
  EXPECT_EQ(StoredStep(low_), 3);
  queue_.Remove(high);
  StartDispatcher();
  RecoverAll();
  EXPECT_EQ(AwaitState(low_, v1::Video::QUEUED, 2).preemptions(), 0);
  const auto second = JoinGroup("b");
  const v1::Run urgent = AwaitRun(*second);
  EXPECT_EQ(urgent.video_id(), high);
  End(second, urgent, absl::OkStatus());
  EXPECT_EQ(AwaitRun(*second).resume_from().step(), 3);
}

TEST_F(PreemptionTest, AReservedGroupThatCanNoLongerRunTheJobIsFree) {
  const auto a = JoinGroup("a", "0"), b = JoinGroup("b", "1");
  const auto list = [&](const std::shared_ptr<RecordingLink>& link, std::vector<std::string> loras) {
    v1::WorkerMessage message;
    message.mutable_model()->set_id("tiny");
    message.mutable_model()->mutable_loras()->Assign(loras.begin(), loras.end());
    dispatcher_->Receive(link, message);
    Settle();
  };
  list(a, {"l"});
  list(b, {"l"});
  SubmitWith(9);
  Settle();
  const auto high = a->empty() ? b : a, low = a->empty() ? a : b;
  AwaitRun(*high);
  const v1::Run run = RunFor(low, 1000);
  v1::CreateVideoRequest request;
  request.mutable_scheduling()->set_priority(5);
  request.mutable_generation()->add_loras()->set_id("l");
  Submit(request);
  ExpectCancel(*low);
  list(low, {});
  End(low, run, absl::CancelledError("stopped"));
  EXPECT_EQ(AwaitRun(*low).video_id(), low_);
}

TEST_F(PreemptionTest, OfTwoGroupsTheRunOfTheLowestPriorityIsStoppedAndEachWaitingJobHasItsOwnPlace) {
  const auto a = JoinGroup("a", "0"), b = JoinGroup("b", "1");
  std::map<int, std::shared_ptr<RecordingLink>> links;  // by priority
  for (const int priority : {1, 2}) {
    SubmitWith(priority);
    Settle();
    links[priority] = a->empty() ? b : a;
    Stage(links[priority], AwaitRun(*links[priority]), v1::STAGE_DENOISE, 1000);
  }
  SubmitWith(2);
  ExpectCancel(*links[1]);
  EXPECT_TRUE(IsSilent(*links[2]));
  SubmitWith(3);
  ExpectCancel(*links[2]);
}

constexpr absl::Duration kMinute = absl::Minutes(1);

BusyGroup Busy(int priority, absl::Duration unsaved = absl::ZeroDuration()) {
  return {.group = "0", .stoppable = true, .priority = priority, .unsaved = unsaved};
}

TEST(ChoosePlace, TakesTheLowestPriorityThenTheLeastToLose) {
  const std::optional<Place> place =
      ChoosePlace(5, kMinute, {Busy(2), Busy(1, 9 * kMinute), Busy(1, 2 * kMinute), Busy(1, 3 * kMinute)});
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->interrupt);
  EXPECT_EQ(place->index, 2u);
}

TEST(ChoosePlace, WaitsForAGroupThatIsSoonFree) {
  BusyGroup soon = Busy(9);
  soon.remaining = kMinute;
  const std::optional<Place> place = ChoosePlace(5, kMinute, {Busy(0), soon});
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->interrupt);
  EXPECT_EQ(place->index, 1u);
}

TEST(ChoosePlace, IsNoneWhereNoRunMayBeStopped) {
  BusyGroup decodes = Busy(0), twice = Busy(0);
  decodes.stoppable = false;
  twice.preemptions = kMostPreemptions;
  EXPECT_FALSE(ChoosePlace(5, kMinute, {decodes, twice, Busy(5), Busy(6)}));
  EXPECT_FALSE(ChoosePlace(5, kMinute, {}));
}

}  // namespace
}  // namespace kinora
