// If the frontend's process is stopped for a while, or the date is set, workers must not count as silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class PauseTest : public DispatcherTest {
 protected:
  PauseTest() : link_(JoinGroup("a")), id_(Submit()), run_(AwaitRun(*link_)) {}

  void ExpectTheFirstAttemptCompletes() {
    EXPECT_FALSE(link_->closed());
    Pass(absl::Seconds(30), {link_});
    End(link_, run_, absl::OkStatus());
    EXPECT_EQ(AwaitState(id_, v1::Video::COMPLETED).attempt(), 1);
    const std::string page = page_.Text();
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      if (absl::StartsWith(line, "kinora_group_restarts_total{")) {
        EXPECT_TRUE(absl::EndsWith(line, "} 0")) << line;
      }
    }
  }

  const std::shared_ptr<RecordingLink> link_;
  const JobId id_;
  const v1::Run run_;
};

TEST_F(PauseTest, APauseOfTheFrontendLosesNoWorker) {
  for (const absl::Duration pause : {absl::Seconds(20), absl::Minutes(5), absl::Hours(10)}) {
    Pass(absl::Seconds(5), {link_});
    clock_.Advance(pause);
    EXPECT_EQ(Groups()[0].state(), "busy") << pause;
  }
  ExpectTheFirstAttemptCompletes();
}

TEST_F(PauseTest, AWorkerThatIsSilentAfterAPauseIsLost) {
  clock_.Advance(absl::Hours(1));
  Settle();
  Pass(absl::Seconds(16), {});
  EXPECT_THAT(link_->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Groups()[0].reason(), HasSubstr("no heartbeat"));
}

TEST_F(PauseTest, AWorkerIsNotStalledByAPauseOfTheFrontend) {
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(absl::Minutes(10));
    v1::WorkerMessage beat;  // shows no progress
    beat.mutable_heartbeat()->set_units_done(1);
    dispatcher_->Receive(link_, beat);
    Settle();
  }
  ExpectTheFirstAttemptCompletes();
}

TEST_F(PauseTest, HeartbeatsThatWaitInTheQueueAreReadBeforeSilenceIsJudged) {
  Pass(absl::Seconds(14), {});
  absl::Notification held, go_on;
  dispatcher_->ListGroups([&](const auto&) {  // blocks the dispatcher's thread
    held.Notify();
    go_on.WaitForNotification();
  });
  held.WaitForNotification();
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_units_done(1);
  dispatcher_->Receive(link_, beat);
  clock_.Advance(absl::Milliseconds(1900));  // shorter than what counts as a pause
  go_on.Notify();
  Settle();
  ExpectTheFirstAttemptCompletes();
}

TEST_F(PauseTest, ADateThatStepsDoesNothing) {
  for (const absl::Duration step : {absl::Hours(1), -absl::Hours(3), absl::Hours(20)}) {
    date_.Step(step);
    Pass(absl::Seconds(13), {});
    Pass(absl::Seconds(20), {link_});
  }
  ExpectTheFirstAttemptCompletes();
}

TEST_F(PauseTest, AStepOfTheDateHidesNoSilence) {
  date_.Step(-absl::Hours(1));
  Pass(absl::Seconds(16), {});
  EXPECT_THAT(link_->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(PauseTest, TheLastHeartbeatIsShownAsADate) {
  clock_.Advance(absl::Hours(1));
  Pass(absl::Seconds(3), {link_});
  date_.Step(absl::Hours(2));
  Pass(absl::Seconds(4), {});
  EXPECT_EQ(Groups()[0].ranks(0).last_heartbeat().seconds(), absl::ToUnixSeconds(date_.Now()) - 4);
}

}  // namespace
}  // namespace kinora
