// A worker process's loop between a frontend and a model that the test scripts.
#include "server/worker/rank_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "tests/testing/fake_frontend.h"
#include "tests/testing/fake_model.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class EndingRank : public Rank {  // reports only how the model's run ended, and whether it keeps its state
 public:
  v1::RunResult Run(const RunContext& context, const v1::Run& run) override {
    v1::RunResult result;
    result.set_video_id(run.video_id());
    result.set_attempt(run.attempt());
    v1::Usage usage;
    ProgressObserver observer([&](const Progress&) {
      ++context.units_done;
      return context.cancelled ? absl::CancelledError("cancelled") : absl::OkStatus();
    });
    const absl::Status status = context.model.Generate(PreparedRun{}, nullptr, &observer, usage);
    result.set_step_reached(*context.keep_state ? 1 : 0);  // for the test: whether the state is to be kept
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    return result;
  }
};

class RankLoopTest : public testing::Test {
 protected:
  RankLoopTest() {
    auto joined = JoinClient::Join({frontend_.address()}, v1::Hello(), absl::Seconds(30));
    KINORA_CHECK(joined.ok()) << joined.status();
    client_ = *std::move(joined);
    frontend_.Next();  // Hello
    loop_ = std::make_unique<RankLoop>(RankLines{*client_, rendezvous_, files_, lost_, fitness_}, metrics_);
  }
  ~RankLoopTest() override {
    frontend_.Break();
    if (runner_.joinable()) runner_.join();
    loop_.reset();
  }

  void Start() {
    runner_ = std::thread([this] { ended_ = loop_->Run(rank_, model_); });
    EXPECT_EQ(frontend_.Next().ready().model().id(), "fake");
  }
  absl::Status AwaitEnd() {
    runner_.join();
    return ended_;
  }
  void Shutdown(absl::Duration grace = absl::Seconds(30)) {
    v1::FrontendMessage message;
    *message.mutable_shutdown()->mutable_grace() = ToProto(grace);
    frontend_.Send(message);
  }
  void SendRun(const std::string& id) {
    v1::FrontendMessage message;
    message.mutable_run()->set_video_id(id);
    message.mutable_run()->set_attempt(1);
    frontend_.Send(message);
  }
  void SendCancel(const std::string& id, bool keep_state = false) {
    v1::FrontendMessage message;
    message.mutable_cancel()->set_keep_state(keep_state);
    message.mutable_cancel()->set_video_id(id);
    message.mutable_cancel()->set_attempt(1);
    frontend_.Send(message);
  }
  // Starts a run that continues until it is cancelled; notifies `begun` when it has started.
  void RunUntilCancelled(absl::Notification& begun) {
    model_.run = [&begun](ClipSink*, FakeModel::Report report) {
      begun.Notify();
      absl::Status status;
      while (status.ok()) status = report({.stage = {StageKind::kDenoise}});
      return status;
    };
  }

  FakeFrontend frontend_{absl::Milliseconds(10)};
  prometheus::Registry registry_;
  WorkerMetrics metrics_{registry_};
  FakeModel model_;
  EndingRank rank_;
  std::unique_ptr<JoinClient> client_;
  FileLines files_{[this](const v1::WorkerMessage& message) { client_->Send(message); }};
  JoinRendezvous rendezvous_{[this](const v1::WorkerMessage& message) { client_->Send(message); }};
  AbortSignal lost_;
  std::atomic<bool> sound_ = true;
  Fitness fitness_{[this] { return sound_ ? absl::OkStatus() : absl::UnavailableError("the disk has gone"); }};
  std::unique_ptr<RankLoop> loop_;
  std::thread runner_;
  absl::Status ended_;
};

// Each heartbeat is sent before the message that would make the frontend send a run.
TEST_F(RankLoopTest, AnUnfitMachineIsSaidBeforeReadyAndBeforeTheAnswerOfARunUntilItIsSound) {
  const auto await = [this](const std::string& unfit) {
    while (frontend_.NextHeartbeat().unfit() != unfit) {
    }
  };
  sound_ = false;
  Start();
  EXPECT_THAT(loop_->Readiness(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the disk has gone")));
  await("the disk has gone");
  sound_ = true;
  await("");
  EXPECT_THAT(loop_->Readiness(), IsOk());
  model_.run = [this](ClipSink*, FakeModel::Report) {
    sound_ = false;
    return fitness_.Look();  // as a rank does
  };
  SendRun("job");
  EXPECT_EQ(frontend_.Next().run_result().video_id(), "job");
  EXPECT_FALSE(fitness_.last().ok());
  await("the disk has gone");
}

TEST_F(RankLoopTest, IsReadyAfterTheLoadAndBeatsFromTheBeginning) {
  EXPECT_EQ(frontend_.NextHeartbeat().phase(), "load");
  EXPECT_THAT(loop_->Readiness(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("loading")));
  Start();
  EXPECT_THAT(loop_->Readiness(), IsOk());
  while (frontend_.NextHeartbeat().phase() != "idle") {
  }
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, RunsOneAfterAnotherAndAnswersEach) {
  Start();
  SendRun("a");
  SendRun("b");
  for (const char* id : {"a", "b"}) {
    const v1::RunResult result = frontend_.Next().run_result();
    EXPECT_EQ(result.video_id(), id);
    EXPECT_FALSE(result.has_error());
  }
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, ACancelEndsItsRunAndNoOther) {
  Start();
  absl::Notification begun;
  RunUntilCancelled(begun);
  SendRun("a");
  begun.WaitForNotification();
  SendCancel("b");
  SendCancel("a");
  EXPECT_EQ(frontend_.Next().run_result().error().code(), static_cast<int>(absl::StatusCode::kCancelled));
  model_.run = FakeModel::Render;
  SendRun("c");
  EXPECT_FALSE(frontend_.Next().run_result().has_error());
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, ACancelMayComeBeforeItsRunHasBegun) {
  Start();
  SendCancel("a");
  SendRun("a");
  EXPECT_EQ(frontend_.Next().run_result().error().code(), static_cast<int>(absl::StatusCode::kCancelled));
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, ACancelSaysWhetherTheStateIsKept) {
  Start();
  for (const bool keep : {true, false}) {
    absl::Notification begun;
    RunUntilCancelled(begun);
    const std::string id = keep ? "kept" : "dropped";
    SendRun(id);
    begun.WaitForNotification();
    SendCancel(id, keep);
    EXPECT_EQ(frontend_.Next().run_result().step_reached(), keep ? 1 : 0);
  }
  model_.run = FakeModel::Render;
  SendRun("b");
  EXPECT_EQ(frontend_.Next().run_result().step_reached(), 0);
  SendCancel("c", /*keep_state=*/true);  // before its run
  SendRun("c");
  EXPECT_EQ(frontend_.Next().run_result().step_reached(), 1);
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

// However many estimates a frontend requests while one is in progress, the worker's memory stays bounded, and each
// request gets one answer.
TEST_F(RankLoopTest, EstimatesBeyondThoseThatMayWaitAreRefusedAtOnce) {
  absl::Notification begun, go_on;
  model_.before_prepare = [&] {
    if (!begun.HasBeenNotified()) begun.Notify();
    go_on.WaitForNotification();
  };
  Start();
  v1::FrontendMessage message;
  message.mutable_estimate()->mutable_generation()->set_prompt("a kite");
  const auto ask = [&](int64_t id) {
    message.mutable_estimate()->set_id(id);
    frontend_.Send(message);
  };
  ask(0);
  begun.WaitForNotification();
  constexpr int kWaiting = 64, kAsked = 70;
  for (int64_t id = 1; id <= kAsked; ++id) ask(id);
  for (int64_t id = kWaiting + 1; id <= kAsked; ++id) {
    const v1::EstimateResult refused = frontend_.Next().estimate_result();
    EXPECT_EQ(refused.id(), id);
    EXPECT_THAT(FromRpcStatus(refused.error()), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("too many")));
  }
  go_on.Notify();
  for (int64_t id = 0; id <= kWaiting; ++id) {
    const v1::EstimateResult answered = frontend_.Next().estimate_result();
    EXPECT_EQ(answered.id(), id);
    EXPECT_TRUE(answered.has_estimate());
  }
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, EstimatesAreAnsweredDuringARun) {
  Start();
  absl::Notification begun;
  RunUntilCancelled(begun);
  SendRun("a");
  begun.WaitForNotification();
  v1::FrontendMessage message;
  message.mutable_estimate()->set_id(5);
  frontend_.Send(message);
  const v1::EstimateResult refused = frontend_.Next().estimate_result();
  EXPECT_EQ(refused.id(), 5);
  EXPECT_THAT(refused.error().message(), HasSubstr("prompt"));
  message.mutable_estimate()->mutable_generation()->set_prompt("a kite");
  frontend_.Send(message);
  EXPECT_EQ(frontend_.Next().estimate_result().estimate().seconds(), 2.5);
  SendCancel("a");
  EXPECT_TRUE(frontend_.Next().has_run_result());
  Shutdown();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, AShutdownWithoutGraceEndsTheRun) {
  Start();
  absl::Notification begun;
  RunUntilCancelled(begun);
  SendRun("a");
  begun.WaitForNotification();
  Shutdown(absl::ZeroDuration());
  const v1::RunResult result = frontend_.Next().run_result();
  EXPECT_EQ(result.error().code(), static_cast<int>(absl::StatusCode::kCancelled));
  EXPECT_EQ(result.step_reached(), 1);  // the state is kept
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, ASignalKeepsTheStateUnlessTheRunIsCancelledAlready) {
  Start();
  absl::Notification begun, stopped;
  model_.run = [&](ClipSink*, FakeModel::Report report) {
    begun.Notify();
    absl::Status status;
    while (status.ok()) status = report({.stage = {StageKind::kDenoise}});
    stopped.WaitForNotification();
    return status;
  };
  SendRun("a");
  begun.WaitForNotification();
  SendCancel("a");
  // The cancel has arrived when a later message is answered.
  v1::FrontendMessage message;
  message.mutable_estimate()->set_id(5);
  frontend_.Send(message);
  EXPECT_EQ(frontend_.Next().estimate_result().id(), 5);
  loop_->Stop(absl::ZeroDuration());
  stopped.Notify();
  EXPECT_EQ(frontend_.Next().run_result().step_reached(), 0);
  frontend_.Break();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, OneThatIsToldToLeaveBySomebodyElseSaysSoToItsFrontend) {
  Start();
  loop_->Stop(absl::ZeroDuration());
  while (frontend_.NextHeartbeat().phase() != "leaving") {
  }
  frontend_.Break();
  EXPECT_THAT(AwaitEnd(), IsOk());
}

TEST_F(RankLoopTest, TheEndOfTheStreamEndsTheRunAndTheLoop) {
  Start();
  absl::Notification begun;
  RunUntilCancelled(begun);
  SendRun("a");
  begun.WaitForNotification();
  frontend_.Break();
  EXPECT_FALSE(AwaitEnd().ok());
  EXPECT_THAT(loop_->Readiness(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("disconnected")));
  EXPECT_FALSE(rendezvous_.Await(1, "address", absl::Seconds(30)).ok());
}

// A run without an outcome: the frontend learns the reason before the process exits, but not as the job's result.
TEST_F(RankLoopTest, ARankThatFailsAloneSaysSoAndLeaves) {
  Start();
  model_.run = [](ClipSink*, FakeModel::Report) { return absl::AbortedError("a rank failed: device lost"); };
  SendRun("a");
  const v1::WorkerMessage message = frontend_.Next();
  ASSERT_TRUE(message.has_rank_failed()) << message.ShortDebugString();
  EXPECT_THAT(message.rank_failed().error().message(), HasSubstr("device lost"));
  frontend_.Break();
  EXPECT_THAT(AwaitEnd(), StatusIs(absl::StatusCode::kAborted, HasSubstr("device lost")));
}

// Another rank is lost while this one waits for it in a collective: only the abort wakes it.
TEST_F(RankLoopTest, AnAbortWakesARunThatWaitsForALostRank) {
  Start();
  absl::Notification begun;
  model_.run = [&](ClipSink*, FakeModel::Report) {
    begun.Notify();
    absl::Notification lost;
    const AbortSignal::Listener listener(lost_, [&lost] { lost.Notify(); });
    lost.WaitForNotification();
    return absl::AbortedError("the group of ranks was aborted");
  };
  SendRun("a");
  begun.WaitForNotification();
  v1::FrontendMessage message;
  message.mutable_abort()->set_why("rank 1 disconnected");
  frontend_.Send(message);
  EXPECT_TRUE(frontend_.Next().has_rank_failed());
  frontend_.Break();
  EXPECT_TRUE(absl::IsAborted(AwaitEnd()));
  EXPECT_THAT(rendezvous_.Await(1, "address", absl::Seconds(30)),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 1 disconnected")));
}

TEST_F(RankLoopTest, AnAbortDuringTheLoadReachesWhoeverListensThenAndLater) {
  absl::Notification lost;
  const AbortSignal::Listener listener(lost_, [&lost] { lost.Notify(); });
  v1::FrontendMessage message;
  message.mutable_abort()->set_why("rank 1 disconnected");
  frontend_.Send(message);
  EXPECT_FALSE(rendezvous_.Await(1, "address", absl::Seconds(30)).ok());  // the frontend's answer has arrived
  lost.WaitForNotification();
  int calls = 0;
  const AbortSignal::Listener later(lost_, [&calls] { ++calls; });
  EXPECT_EQ(calls, 1);
  frontend_.Break();
  EXPECT_FALSE(loop_->Run(rank_, model_).ok());
}

TEST_F(RankLoopTest, AFrontendThatGoesDuringTheLoadEndsItsWaits) {
  absl::Notification lost;
  const AbortSignal::Listener listener(lost_, [&lost] { lost.Notify(); });
  frontend_.Break();
  lost.WaitForNotification();
}

TEST_F(RankLoopTest, WhatOtherRanksPublishReachesTheRendezvous) {
  rendezvous_.Publish("address", "host:0");
  EXPECT_EQ(frontend_.Next().rendezvous().value(), "host:0");
  v1::FrontendMessage message;
  message.mutable_rendezvous()->set_rank(1);
  message.mutable_rendezvous()->set_key("address");
  message.mutable_rendezvous()->set_value("host:1");
  frontend_.Send(message);
  EXPECT_THAT(rendezvous_.Await(1, "address", absl::Seconds(30)), IsOkAndHolds("host:1"));
}

}  // namespace
}  // namespace kinora
