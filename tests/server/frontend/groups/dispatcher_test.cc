#include "server/frontend/groups/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/recording_link.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::HasSubstr;

using State = v1::Video::State;

TEST_F(DispatcherTest, AJobRunsAndIsCompletedWithItsArtifacts) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  EXPECT_EQ(run.video_id(), id);
  EXPECT_EQ(run.artifact_key(), id + "/1");
  EXPECT_EQ(run.generation().prompt(), "a kite");
  EXPECT_EQ(Groups()[0].video_id(), id);
  End(link, run, absl::OkStatus());
  const v1::Video video = AwaitState(id, v1::Video::COMPLETED);
  EXPECT_EQ(video.artifacts(0).id(), "video.mp4");
  EXPECT_EQ(Groups()[0].state(), "idle");
}

TEST_F(DispatcherTest, ARunSaysWhereTheInputsOfItsJobLie) {
  v1::CreateVideoRequest request;
  for (const char* id : {"aa", "bb"}) request.mutable_generation()->add_conditions()->mutable_image()->set_input_id(id);
  request.mutable_generation()->mutable_audio()->mutable_media()->set_input_id("bb");
  const auto link = JoinGroup("a");
  Submit(request);
  const v1::Run run = AwaitRun(*link);
  const std::map<std::string, std::string> paths(run.input_paths().begin(), run.input_paths().end());
  EXPECT_EQ(paths, (std::map<std::string, std::string>{{"aa", "inputs/aa"}, {"bb", "inputs/bb"}}));
}

TEST_F(DispatcherTest, AJobThatWaitedRunsWhenAGroupComes) {
  const JobId id = Submit();
  EXPECT_EQ(AwaitRun(*JoinGroup("a")).video_id(), id);
}

TEST_F(DispatcherTest, StagesAreStoredAndStepsAreNot) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  auto watch = hub_.Subscribe(id, [] {});
  ASSERT_THAT(watch, IsOk());
  v1::WorkerMessage stage, step;
  stage.mutable_stage()->set_video_id(id);
  stage.mutable_stage()->set_attempt(1);
  stage.mutable_stage()->set_stage(v1::STAGE_DENOISE);
  stage.mutable_stage()->set_total_steps(8);
  dispatcher_->Receive(link, stage);
  step.mutable_step()->set_video_id(id);
  step.mutable_step()->set_attempt(1);
  step.mutable_step()->set_stage(v1::STAGE_DENOISE);
  step.mutable_step()->set_step(3);
  step.mutable_step()->set_fraction(0.25);
  dispatcher_->Receive(link, step);
  Settle();  // the stage is stored, and the step that waited for it is shown
  int stages = 0, steps = 0;
  while (const auto event = (*watch)->Next()) {
    stages += event->has_stage();
    if (event->has_step()) {
      ++steps;
      EXPECT_EQ(event->step().step(), 3);
    }
  }
  EXPECT_EQ(stages, 1);
  EXPECT_EQ(steps, 1);
  const auto history = WaitFor<JobHistory>([&](auto done) { store_->EventsAfter(id, 0, std::move(done)); });
  ASSERT_THAT(history, IsOk());
  for (const v1::VideoEvent& event : history->events) EXPECT_FALSE(event.has_step());
  (*watch)->Close();
}

TEST_F(DispatcherTest, ALostGroupQueuesItsJobAgainAndTheSecondLossEndsIt) {
  const auto first = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*first);
  dispatcher_->Disconnect(first, absl::OkStatus());
  EXPECT_THAT(first->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable));

  const auto second = JoinGroup("b");
  const v1::Run again = AwaitRun(*second);
  EXPECT_EQ(again.video_id(), id);
  EXPECT_EQ(again.attempt(), 2);
  dispatcher_->ProcessEnded("0", "b", "killed by signal 9 (Killed)");
  const v1::Video video = AwaitState(id, v1::Video::FAILED);
  EXPECT_EQ(video.error().code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(ErrorReason(FromRpcStatus(video.error())), "WORKER_GROUP_LOST");
  EXPECT_THAT(video.error().message(), HasSubstr("killed by signal 9"));
}

TEST_F(DispatcherTest, WhatALostRunStillSaysIsNotHeard) {
  const auto first = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*first);
  dispatcher_->Disconnect(first, absl::OkStatus());
  End(first, run, absl::OkStatus());
  const auto second = JoinGroup("b");
  const v1::Run again = AwaitRun(*second);
  End(second, run, absl::OkStatus());  // the first attempt's number
  EXPECT_EQ(Groups()[0].state(), "busy");
  End(second, again, absl::OkStatus());
  EXPECT_EQ(AwaitState(id, v1::Video::COMPLETED).attempt(), 2);
}

TEST_F(DispatcherTest, ASilentGroupIsLostWhenItsTimeIsUp) {
  std::vector<std::string> lost;
  dispatcher_->SetLossListener(
      [&](const std::string&, const std::string& incarnation, const std::string&) { lost.push_back(incarnation); });
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*link);
  Pass(absl::Seconds(30), {link});
  EXPECT_FALSE(link->closed());
  Pass(absl::Seconds(16), {});
  EXPECT_THAT(link->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable));
  AwaitState(id, v1::Video::QUEUED, 2);
  EXPECT_THAT(Groups()[0].reason(), HasSubstr("no heartbeat"));
  EXPECT_THAT(lost, testing::ElementsAre("a"));
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_group_restarts_total{reason=\"silent\"} 1"));
}

TEST_F(DispatcherTest, ACancelReachesTheRunAndEndsTheJob) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  CancelInStore(id);
  dispatcher_->CancelRun(id);
  EXPECT_EQ(link->Next().cancel().video_id(), id);
  End(link, run, absl::CancelledError("at step 3"));
  AwaitState(id, v1::Video::CANCELLED);
}

TEST_F(DispatcherTest, ACancelThatOnlyTheStoreKnowsComesWithTheLease) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*link);
  CancelInStore(id);
  Pass(absl::Seconds(10), {link});
  EXPECT_EQ(link->Next().cancel().video_id(), id);
}

TEST_F(DispatcherTest, ACancelledJobWhoseGroupIsLostIsCancelled) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*link);
  CancelInStore(id);
  dispatcher_->CancelRun(id);
  dispatcher_->Disconnect(link, absl::OkStatus());
  AwaitState(id, v1::Video::CANCELLED);
}

TEST_F(DispatcherTest, ARunThatEndedBeforeItsCancelIsCompleted) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  CancelInStore(id);
  End(link, run, absl::OkStatus());
  AwaitState(id, v1::Video::COMPLETED);
}

TEST_F(DispatcherTest, AFailedRunEndsTheJobWithItsError) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  End(link, AwaitRun(*link), absl::ResourceExhaustedError("out of memory in decode_video"));
  const v1::Video video = AwaitState(id, v1::Video::FAILED);
  EXPECT_EQ(video.error().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Groups()[0].state(), "idle");
}

TEST_F(DispatcherTest, ADeadlineEndsARunningJob) {
  const auto link = JoinGroup("a");
  v1::CreateVideoRequest request;
  request.mutable_scheduling()->mutable_deadline()->set_seconds(20);
  const JobId id = Submit(request);
  const v1::Run run = AwaitRun(*link);
  Pass(absl::Seconds(20), {link});
  EXPECT_TRUE(link->Next().has_cancel());
  End(link, run, absl::CancelledError("at step 3"));
  EXPECT_EQ(AwaitState(id, v1::Video::FAILED).error().code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(DispatcherTest, ADeadlineEndsAWaitingJob) {
  v1::CreateVideoRequest request;
  request.mutable_scheduling()->mutable_deadline()->set_seconds(20);
  const JobId id = Submit(request);
  Settle();
  clock_.Advance(absl::Seconds(21));
  EXPECT_EQ(AwaitState(id, v1::Video::FAILED).error().code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(DispatcherTest, AnAdministratorsRestartDoesNotCount) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 4; ++attempt) {
    const auto link = JoinGroup(absl::StrCat("incarnation ", attempt));
    EXPECT_EQ(AwaitRun(*link).attempt(), attempt);
    EXPECT_THAT(WaitFor<v1::WorkerGroup>([&](auto done) { dispatcher_->RestartGroup("0", std::move(done)); }), IsOk());
    AwaitState(id, v1::Video::QUEUED, attempt + 1);
  }
  EXPECT_THAT(WaitFor<v1::WorkerGroup>([&](auto done) { dispatcher_->RestartGroup("7", std::move(done)); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"7\"")));
}

// The host is being drained: the worker announces that it leaves just after a run has started.
TEST_F(DispatcherTest, AWorkerThatWasToldToLeaveDoesNotCount) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 4; ++attempt) {
    const auto link = JoinGroup(absl::StrCat("incarnation ", attempt));
    EXPECT_EQ(AwaitRun(*link).attempt(), attempt);
    v1::WorkerMessage leaving;
    leaving.mutable_heartbeat()->set_phase("leaving");
    dispatcher_->Receive(link, leaving);
    AwaitState(id, v1::Video::QUEUED, attempt + 1);
  }
}

TEST_F(DispatcherTest, ADrainedGroupEndsItsRunAndTakesNoOther) {
  const auto link = JoinGroup("a");
  const JobId first = Submit();
  const v1::Run run = AwaitRun(*link);
  const JobId second = Submit();
  const auto drained = WaitFor<v1::WorkerGroup>([&](auto done) { dispatcher_->DrainGroup("0", std::move(done)); });
  EXPECT_EQ(drained->state(), "draining");
  End(link, run, absl::OkStatus());
  AwaitState(first, v1::Video::COMPLETED);
  EXPECT_EQ(Groups()[0].state(), "drained");
  EXPECT_TRUE(link->empty());
  EXPECT_EQ(queue_.Position(second), 1);
}

TEST_F(DispatcherTest, DrainWaitsForRunsThatEndInTime) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  Settle();
  std::thread drain([&] { dispatcher_->Drain(absl::Seconds(20)); });
  End(link, run, absl::OkStatus());
  drain.join();
  AwaitState(id, v1::Video::COMPLETED);
  EXPECT_TRUE(link->Next().has_shutdown());
}

TEST_F(DispatcherTest, DrainQueuesTheRestAgainUncounted) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto link = JoinGroup(absl::StrCat("incarnation ", attempt));
    EXPECT_EQ(AwaitRun(*link).attempt(), attempt);
    absl::Notification drained;
    dispatcher_->BeginDrain(absl::Seconds(10), [&] { drained.Notify(); });
    Settle();  // it has begun
    clock_.Advance(absl::Seconds(11));
    drained.WaitForNotification();
    AwaitState(id, v1::Video::QUEUED, attempt + 1);
    EXPECT_TRUE(link->Next().has_cancel());
    EXPECT_TRUE(link->Next().has_shutdown());
    StartDispatcher();  // as after a restart; this test keeps the queue
    queue_.Remove(id);
    RecoverAll();
  }
}

// SIGTERM reaches frontend and workers at the same time, as with systemd without KillMode=mixed.
TEST_F(DispatcherTest, AGroupThatIsLostDuringADrainDoesNotCount) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto link = JoinGroup(absl::StrCat("incarnation ", attempt));
    EXPECT_EQ(AwaitRun(*link).attempt(), attempt);
    absl::Notification drained;
    dispatcher_->BeginDrain(absl::Seconds(10), [&] { drained.Notify(); });
    dispatcher_->Disconnect(link, absl::OkStatus());
    AwaitState(id, v1::Video::QUEUED, attempt + 1);
    drained.WaitForNotification();
    StartDispatcher();
    queue_.Remove(id);
    RecoverAll();
  }
}

TEST_F(DispatcherTest, ARestartedFrontendRunsWhatItsPredecessorLeftRunningUncounted) {
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(AwaitRun(*JoinGroup(absl::StrCat("incarnation ", attempt))).attempt(), attempt);
    StartDispatcher();  // the previous one leaves its job RUNNING, as in a crash
    RecoverAll();
  }
  const auto link = JoinGroup("last");
  End(link, AwaitRun(*link), absl::OkStatus());
  EXPECT_EQ(AwaitState(id, v1::Video::COMPLETED).attempt(), 4);
}

TEST_F(DispatcherTest, EstimatesAreAnsweredByAGroupEvenWhileItRuns) {
  const auto link = JoinGroup("a");
  Submit();
  AwaitRun(*link);
  absl::StatusOr<v1::Estimate> estimate;
  absl::Notification answered;
  v1::Generation generation;
  generation.set_width(64);
  dispatcher_->Estimate("tiny", generation, [&](absl::StatusOr<v1::Estimate> e) {
    estimate = std::move(e);
    answered.Notify();
  });
  const v1::FrontendMessage asked = link->Next();
  EXPECT_EQ(asked.estimate().generation().width(), 64);
  v1::WorkerMessage answer;
  answer.mutable_estimate_result()->set_id(asked.estimate().id());
  answer.mutable_estimate_result()->mutable_estimate()->set_seconds(12);
  dispatcher_->Receive(link, answer);
  answered.WaitForNotification();
  EXPECT_EQ(estimate->seconds(), 12);
}

TEST_F(DispatcherTest, AnEstimateWithoutAGroupOrFromALostOneIsUnavailable) {
  const auto ask = [&](auto meanwhile) {
    absl::StatusOr<v1::Estimate> estimate;
    absl::Notification answered;
    dispatcher_->Estimate("tiny", {}, [&](absl::StatusOr<v1::Estimate> e) {
      estimate = std::move(e);
      answered.Notify();
    });
    meanwhile();
    answered.WaitForNotification();
    return estimate.status();
  };
  EXPECT_THAT(ask([] {}), StatusIs(absl::StatusCode::kUnavailable));
  const auto link = JoinGroup("a");
  EXPECT_THAT(ask([&] { dispatcher_->Disconnect(link, absl::OkStatus()); }), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(DispatcherTest, HealthFollowsTheGroups) {
  absl::Mutex mu;
  std::vector<bool> seen;
  dispatcher_->SetHealthListener([&](const GroupsHealth& health) {
    absl::MutexLock lock(&mu);
    seen.push_back(health.ready);
  });
  const auto link = JoinGroup("a");
  Settle();  // the model is stored, and the group is reported
  dispatcher_->Disconnect(link, absl::OkStatus());
  Settle();
  absl::MutexLock lock(&mu);
  EXPECT_EQ(seen.front(), false);
  EXPECT_EQ(seen.back(), false);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 1);
}

TEST_F(DispatcherTest, ASecondIncarnationIsRefusedWhileTheFirstLives) {
  JoinGroup("a");
  EXPECT_THAT(Rejection(HelloOf("b")), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Groups().size(), 1u);
  EXPECT_EQ(Groups()[0].state(), "idle");
}

TEST_F(DispatcherTest, GaugesGoBackToZero) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  Settle();
  EXPECT_EQ(metrics_.jobs_running.Value(), 1);
  End(link, run, absl::InternalError("broken"));
  AwaitState(id, v1::Video::FAILED);
  Settle();
  EXPECT_EQ(metrics_.jobs_running.Value(), 0);
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_group_state{group=\"0\",state=\"busy\"} 0"));
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_group_state{group=\"0\",state=\"idle\"} 1"));
}

TEST_F(DispatcherTest, AnOutcomeThatCannotBeStoredIsTriedLaterAndLaterAndSaidOncePerMinute) {
  TemporaryDirectory folder;
  std::filesystem::create_directory(folder.File("watched"));
  JobCommitterOptions options;
  ASSERT_THAT(options.watch.Add(folder.File("watched")), IsOk());
  dispatcher_.reset();
  store_ = *SqliteJobStore::Open(
      ":memory:", {}, clock_, [](const v1::VideoEvent&) {}, std::move(options));
  StartDispatcher();
  const auto link = JoinGroup("a");
  Submit();
  const v1::Run run = AwaitRun(*link);
  Settle();
  std::filesystem::remove(folder.File("watched"));  // the store accepts no more writes
  testing::internal::CaptureStderr();
  End(link, run, absl::OkStatus());
  for (int second = 0; second < 200; ++second) {
    Settle();  // the store rejects the outcome, and the dispatcher learns that
    Pass(absl::Seconds(1), {link});
  }
  const std::string log = testing::internal::GetCapturedStderr();
  std::vector<int> times;  // number of tries that each line stands for
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (line.find("event=outcome_not_stored") == absl::string_view::npos) continue;
    times.push_back(std::stoi(std::string(line.substr(line.rfind('=') + 1))));
  }
  // Tries after 0, 1, 2, 4, 8, 16 and 32 seconds, then every 30; log lines after 0, 62, 122 and 182.
  EXPECT_THAT(times, testing::ElementsAre(1, 7, 2, 2)) << log;
}

// Until the model is stored, requests for it have no model.
TEST_F(DispatcherTest, AModelThatCouldNotBeStoredIsStoredOnceTheStoreCanBeWritten) {
  TemporaryDirectory folder;
  dispatcher_.reset();
  store_ = *SqliteJobStore::Open(folder.File("jobs.db"), {}, clock_, [](const v1::VideoEvent&) {});
  StartDispatcher();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto other, Database::Open(folder.File("jobs.db")));
  ASSERT_THAT(other->Execute("BEGIN IMMEDIATE"), IsOk());  // like a shell left open
  const auto link = JoinGroup("a");
  const auto models = [&] {
    Settle();  // the store has taken or rejected the model
    return WaitFor<std::vector<v1::ModelInfo>>([&](auto done) { catalogue_->Models(std::move(done)); })->size();
  };
  EXPECT_EQ(models(), 0u);
  ASSERT_THAT(other->Execute("ROLLBACK"), IsOk());
  Pass(absl::Seconds(61), {link});
  EXPECT_EQ(models(), 1u);
  dispatcher_.reset();
  store_.reset();
}

TEST_F(DispatcherTest, WhatRunsTookIsToldToTheNextIncarnationOnTheSameModelAlone) {
  auto first = JoinGroup("i1");
  for (const double seconds : {1.5, 2.5}) {
    const JobId id = Submit();
    End(first, AwaitRun(*first), absl::OkStatus(), seconds);
    AwaitState(id, v1::Video::COMPLETED);
  }
  const JobId failed = Submit();
  End(first, AwaitRun(*first), absl::InternalError("no"));
  AwaitState(failed, v1::Video::FAILED);
  dispatcher_->Disconnect(first, absl::OkStatus());

  auto second = JoinGroup("i2");
  const v1::FrontendMessage told = second->Next();
  ASSERT_EQ(told.speeds().runs_size(), 2) << told.ShortDebugString();
  EXPECT_EQ(told.speeds().runs(0).stages(0).seconds(), 1.5);
  EXPECT_EQ(told.speeds().runs(1).stages(0).seconds(), 2.5);

  auto other = JoinGroup("i3", "other", "another model");
  v1::CreateVideoRequest request;
  request.set_model("another model");
  Submit(request);
  EXPECT_TRUE(other->Next().has_run());
}

}  // namespace
}  // namespace kinora
