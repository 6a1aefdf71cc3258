#include "server/frontend/groups/worker_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/recording_link.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

struct Events : WorkerGroup::Listener {
  void OnReady(WorkerGroup&) override { ++ready; }
  void OnFitness(WorkerGroup&) override { ++fitness; }
  void OnModelChanged(WorkerGroup&, const v1::ModelInfo&) override { ++changes; }
  void OnStage(WorkerGroup&, const v1::StageMark&) override { ++marks; }
  void OnStep(WorkerGroup&, const v1::StepMark&) override { ++marks; }
  void OnPreview(WorkerGroup&, const v1::PreviewMark&) override { ++previews; }
  void OnResolved(WorkerGroup&, const v1::ResolvedMark&) override { ++marks; }
  void OnResume(WorkerGroup&, const v1::ResumeMark&) override { ++points; }
  void OnRunEnded(WorkerGroup&, const v1::RunResult& r) override { results.push_back(r); }
  void OnUpload(WorkerGroup&, const v1::UploadChunk&) override { ++uploads; }
  void OnFetch(WorkerGroup&, const v1::InputFetch&) override { ++fetches; }
  void OnEstimate(WorkerGroup&, const v1::EstimateResult&) override { ++estimates; }
  void OnLost(WorkerGroup&, LossReason r, const std::string& w) override {
    ++lost;
    reason = r;
    why = w;
  }
  int ready = 0, fitness = 0, changes = 0, marks = 0, estimates = 0, uploads = 0, previews = 0, fetches = 0, lost = 0;
  int points = 0;
  std::vector<v1::RunResult> results;
  LossReason reason = LossReason::kAdmin;
  std::string why;
};

class WorkerGroupTest : public testing::Test {
 protected:
  // Starts a group of `ranks` ranks whose model is loaded.
  void Start(int ranks) {
    Join(ranks);
    for (const auto& link : links_) Say(*link, [](v1::WorkerMessage& m) { m.mutable_ready()->set_precision("bf16"); });
  }
  // Starts a group whose ranks are loading.
  void Join(int ranks) {
    group_ = std::make_unique<WorkerGroup>("0", "first", ranks, limits_, events_);
    for (int rank = 0; rank < ranks; ++rank) {
      links_.push_back(std::make_shared<RecordingLink>());
      v1::Hello hello;
      hello.set_rank(rank);
      hello.set_world_size(ranks);
      ASSERT_THAT(group_->AddRank(hello, links_.back(), now_), IsOk());
    }
  }
  template <typename F>
  void Say(const RankLink& link, F fill) {
    v1::WorkerMessage message;
    fill(message);
    group_->Receive(link, message, now_);
  }
  void Beat(const RankLink& link, int64_t units) {
    Say(link, [&](v1::WorkerMessage& m) { m.mutable_heartbeat()->set_units_done(units); });
  }
  void Run() {
    v1::Run run;
    run.set_video_id("job");
    run.set_attempt(1);
    group_->Start(run, now_);
  }
  void End(const RankLink& link, absl::StatusCode code) {
    Say(link, [&](v1::WorkerMessage& m) {
      m.mutable_run_result()->set_video_id("job");
      m.mutable_run_result()->set_attempt(1);
      if (code != absl::StatusCode::kOk) m.mutable_run_result()->mutable_error()->set_code(static_cast<int>(code));
    });
  }
  // Lets time pass; the ranks send heartbeats with the done units that `units` returns.
  void Pass(absl::Duration duration, const std::function<int64_t()>& units) {
    for (const absl::Time end = now_ + duration; now_ < end && events_.lost == 0;) {
      now_ += absl::Seconds(2);
      for (const auto& link : links_) Beat(*link, units());
      group_->CheckHealth(now_);
    }
  }

  Events events_;
  GroupLimits limits_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::vector<std::shared_ptr<RecordingLink>> links_;
  std::unique_ptr<WorkerGroup> group_;
};

TEST_F(WorkerGroupTest, IsReadyOnceEveryRankIs) {
  Start(2);
  EXPECT_EQ(events_.ready, 1);
  EXPECT_EQ(group_->state(), WorkerGroup::State::kIdle);
  EXPECT_EQ(group_->ranks(), 2);
}

// Each field in which ranks may not differ, with the group's error.
TEST_F(WorkerGroupTest, RanksThatDifferAreNoGroupAndWhatDiffersIsNamed) {
  struct Case {
    std::function<void(v1::Ready&)> change;
    const char* said;
  };
  for (const Case& each : {Case{[](v1::Ready& ready) { ready.set_mesh("tokens=3"); }, "the mesh: \"\", \"tokens=3\""},
                           Case{[](v1::Ready& ready) { ready.set_precision("f32"); }, "the precision: \"\", \"f32\""},
                           Case{[](v1::Ready& ready) { ready.set_device("cuda"); }, "the device: \"\", \"cuda\""},
                           Case{[](v1::Ready& ready) { ready.set_untiled_decode(true); }, "untiled_decode"},
                           Case{[](v1::Ready& ready) { ready.set_decoder_border("repeat"); }, "decoder_border"},
                           Case{[](v1::Ready& ready) { ready.set_checkpoint("another"); }, "model files"}}) {
    links_.clear();
    events_ = {};
    Join(3);
    for (const int rank : {2, 0}) Say(*links_[rank], [](v1::WorkerMessage& m) { m.mutable_ready(); });
    EXPECT_EQ(events_.lost, 0);
    Say(*links_[1], [&](v1::WorkerMessage& m) { each.change(*m.mutable_ready()); });
    EXPECT_EQ(events_.ready, 0) << each.said;
    EXPECT_EQ(events_.lost, 1) << each.said;
    EXPECT_EQ(events_.reason, LossReason::kModelConflict) << each.said;
    EXPECT_THAT(events_.why, AllOf(HasSubstr("rank 0 and rank 1"), HasSubstr(each.said)));
  }
}

TEST_F(WorkerGroupTest, RefusesRanksThatDoNotFit) {
  Start(2);
  v1::Hello hello;
  hello.set_world_size(2);
  EXPECT_THAT(group_->AddRank(hello, std::make_shared<RecordingLink>(), now_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not joining")));
  WorkerGroup other("1", "first", 2, limits_, events_);
  hello.set_rank(2);
  EXPECT_THAT(other.AddRank(hello, std::make_shared<RecordingLink>(), now_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rank 2 of 2")));
  hello.set_rank(1);
  EXPECT_THAT(other.AddRank(hello, std::make_shared<RecordingLink>(), now_), IsOk());
  EXPECT_THAT(other.AddRank(hello, std::make_shared<RecordingLink>(), now_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("already has a rank 1")));
}

TEST_F(WorkerGroupTest, APieceOfAnArtifactComesOnceTheOneBeforeIsAnswered) {
  Start(1);
  group_->TakeUploads();
  Run();
  v1::UploadChunk piece;
  piece.set_video_id("job");
  piece.set_attempt(1);
  const auto send = [&] { Say(*links_[0], [&](v1::WorkerMessage& m) { *m.mutable_upload_chunk() = piece; }); };
  send();
  group_->AnswerUpload(piece, absl::OkStatus());
  send();
  EXPECT_EQ(events_.uploads, 2);
  EXPECT_EQ(events_.lost, 0);
  send();
  EXPECT_EQ(events_.uploads, 2);
  EXPECT_THAT(events_.why, HasSubstr("before the previous one was acknowledged"));
}

// Rank 0 gives up a resume point that takes long, and sends the clip.
TEST_F(WorkerGroupTest, AnotherArtifactMayBeginBeforeTheOneBeforeIsAnswered) {
  Start(1);
  group_->TakeUploads();
  Run();
  v1::UploadChunk point, clip;
  point.set_video_id("job");
  point.set_attempt(1);
  point.set_name("resume-1");
  clip = point;
  clip.set_name("video.mp4");
  const auto send = [&](const v1::UploadChunk& chunk) {
    Say(*links_[0], [&](v1::WorkerMessage& m) { *m.mutable_upload_chunk() = chunk; });
  };
  send(point);
  send(clip);
  EXPECT_EQ(events_.uploads, 2);
  group_->AnswerUpload(point, absl::OkStatus());
  EXPECT_EQ(events_.lost, 0);
  clip.set_offset(1);
  send(clip);
  EXPECT_THAT(events_.why, HasSubstr("before the previous one was acknowledged"));
}

TEST_F(WorkerGroupTest, RanksThatDoNotJoinInTimeAreNamedAndLoseTheGroup) {
  group_ = std::make_unique<WorkerGroup>("0", "first", 4, limits_, events_);
  EXPECT_EQ(group_->Missing(), "waiting for rank 0, 1, 2, 3 of 4");
  for (const int rank : {0, 2}) {
    v1::Hello hello;
    hello.set_world_size(4);
    hello.set_rank(rank);
    links_.push_back(std::make_shared<RecordingLink>());
    ASSERT_THAT(group_->AddRank(hello, links_.back(), now_), IsOk());
  }
  Pass(limits_.join_timeout - absl::Seconds(2), [] { return 0; });
  EXPECT_EQ(events_.lost, 0) << events_.why;
  EXPECT_EQ(group_->Describe(absl::ZeroDuration()).reason(), "waiting for rank 1, 3 of 4");
  Pass(absl::Seconds(2), [] { return 0; });
  EXPECT_EQ(events_.lost, 1);
  EXPECT_EQ(events_.reason, LossReason::kIncomplete);
  EXPECT_EQ(events_.why, "waiting for rank 1, 3 of 4, 5m after the first rank joined");
}

TEST_F(WorkerGroupTest, SendsARunToEveryRankAndWaitsForAllAnswers) {
  Start(2);
  Run();
  for (const auto& link : links_) EXPECT_EQ(link->Next().run().video_id(), "job");
  End(*links_[0], absl::StatusCode::kOk);
  EXPECT_TRUE(events_.results.empty());
  EXPECT_EQ(group_->state(), WorkerGroup::State::kBusy);
  End(*links_[1], absl::StatusCode::kOk);
  ASSERT_EQ(events_.results.size(), 1u);
  EXPECT_FALSE(events_.results[0].has_error());
  EXPECT_EQ(group_->state(), WorkerGroup::State::kIdle);
}

TEST_F(WorkerGroupTest, TheRankThatFailedIsTheCauseOfTheOthersCancelled) {
  Start(3);
  Run();
  End(*links_[0], absl::StatusCode::kCancelled);
  End(*links_[1], absl::StatusCode::kResourceExhausted);
  End(*links_[2], absl::StatusCode::kCancelled);
  ASSERT_EQ(events_.results.size(), 1u);
  EXPECT_EQ(events_.results[0].error().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
}

TEST_F(WorkerGroupTest, MarksAndResultsOfAnotherRunAreNotHeard) {
  Start(1);
  Run();
  Say(*links_[0], [](v1::WorkerMessage& m) {
    m.mutable_step()->set_video_id("job");
    m.mutable_step()->set_attempt(2);
  });
  Say(*links_[0], [](v1::WorkerMessage& m) { m.mutable_run_result()->set_video_id("other"); });
  EXPECT_EQ(events_.marks, 0);
  EXPECT_TRUE(events_.results.empty());
}

TEST_F(WorkerGroupTest, DiesAsAUnitWhenARankDisconnects) {
  Start(2);
  Run();
  group_->Disconnect(*links_[1], absl::UnavailableError("reset"));
  EXPECT_EQ(events_.lost, 1);
  EXPECT_THAT(events_.why, HasSubstr("rank 1 disconnected: reset"));
  EXPECT_TRUE(links_[0]->closed());
  EXPECT_TRUE(links_[1]->closed());
  group_->Disconnect(*links_[0], absl::OkStatus());
  End(*links_[0], absl::StatusCode::kOk);
  EXPECT_EQ(events_.lost, 1);
  EXPECT_TRUE(events_.results.empty());
}

TEST_F(WorkerGroupTest, WhatARankPublishesEveryOtherGetsOnceAndAlsoOneThatJoinsLater) {
  WorkerGroup group("0", "first", 3, limits_, events_);
  const auto join = [&](int rank) {
    v1::Hello hello;
    hello.set_rank(rank);
    hello.set_world_size(3);
    links_.push_back(std::make_shared<RecordingLink>());
    EXPECT_THAT(group.AddRank(hello, links_.back(), now_), IsOk());
    group.SendPublished(*links_.back());
  };
  join(0);
  join(1);
  v1::WorkerMessage message;
  message.mutable_rendezvous()->set_key("address");
  message.mutable_rendezvous()->set_value("host:1");
  message.mutable_rendezvous()->set_rank(7);  // ignored: the frontend determines the rank
  group.Receive(*links_[1], message, now_);
  join(2);
  for (const int rank : {0, 2}) {
    const v1::Rendezvous got = links_[rank]->Next().rendezvous();
    EXPECT_EQ(got.key(), "address") << rank;
    EXPECT_EQ(got.value(), "host:1") << rank;
    EXPECT_EQ(got.rank(), 1) << rank;
    EXPECT_TRUE(links_[rank]->empty());
  }
  EXPECT_TRUE(links_[1]->empty());
}

TEST_F(WorkerGroupTest, AGroupThatPublishesTooMuchIsLost) {
  Start(2);
  const std::string value(300 << 10, 'x');
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(events_.lost, 0);
    Say(*links_[i % 2], [&](v1::WorkerMessage& m) { m.mutable_rendezvous()->set_value(value); });
  }
  EXPECT_EQ(events_.lost, 1);
  EXPECT_THAT(events_.why, HasSubstr("published more than 1048576 bytes"));
}

// The others may wait forever in a collective, so they are told to abort before their streams end.
TEST_F(WorkerGroupTest, ARankThatFailsAloneLosesTheGroupAndAllAreToldToAbort) {
  Start(3);
  Run();
  Say(*links_[1], [](v1::WorkerMessage& m) { m.mutable_rank_failed()->mutable_error()->set_message("device lost"); });
  EXPECT_EQ(events_.lost, 1);
  EXPECT_EQ(events_.reason, LossReason::kRankFailed);
  EXPECT_EQ(events_.why, "rank 1 failed: device lost");
  for (const auto& link : links_) {
    EXPECT_TRUE(link->Next().has_run());
    EXPECT_EQ(link->Next().abort().why(), "rank 1 failed: device lost");
    EXPECT_TRUE(link->closed());
  }
}

TEST_F(WorkerGroupTest, ARankThatSaysThatItLeavesLosesTheGroupForThat) {
  Start(2);
  Say(*links_[1], [](v1::WorkerMessage& m) { m.mutable_heartbeat()->set_phase("leaving"); });
  group_->Disconnect(*links_[1], absl::OkStatus());
  EXPECT_EQ(events_.lost, 1);
  EXPECT_EQ(events_.reason, LossReason::kLeft);
  EXPECT_EQ(events_.why, "rank 1 was stopped");
  EXPECT_EQ(links_[0]->Next().abort().why(), "rank 1 was stopped");
}

TEST_F(WorkerGroupTest, ASilentRankLosesTheGroupEvenWhileItIsIdle) {
  Start(2);
  now_ += limits_.heartbeat_timeout - absl::Seconds(1);
  Beat(*links_[0], 0);
  EXPECT_EQ(group_->CheckHealth(now_), now_ + absl::Seconds(1));
  now_ += absl::Seconds(1);
  group_->CheckHealth(now_);
  EXPECT_EQ(events_.lost, 1);
  EXPECT_EQ(events_.reason, LossReason::kSilent);
  EXPECT_THAT(events_.why, HasSubstr("rank 1 sent no heartbeat"));
}

TEST_F(WorkerGroupTest, ARunWithoutProgressIsStalledAfterTheFloor) {
  Start(1);
  Run();
  Pass(absl::Seconds(58), [] { return 0; });
  EXPECT_EQ(events_.lost, 0);
  Pass(absl::Seconds(4), [] { return 0; });
  EXPECT_EQ(events_.reason, LossReason::kStalled);
  EXPECT_EQ(events_.lost, 1);
}

// A bucket that does not respond is no fault of the group.
TEST_F(WorkerGroupTest, ARunThatWaitsForTheFrontendIsNotStalledUntilItIsAnswered) {
  Start(1);
  group_->TakeUploads();
  Run();
  v1::UploadChunk piece;
  piece.set_video_id("job");
  piece.set_attempt(1);
  Say(*links_[0], [&](v1::WorkerMessage& m) { *m.mutable_upload_chunk() = piece; });
  group_->CancelRun(now_);
  Pass(absl::Minutes(9), [] { return 0; });
  EXPECT_EQ(events_.lost, 0);
  group_->AnswerUpload(piece, absl::OkStatus());
  Pass(absl::Seconds(62), [] { return 0; });
  EXPECT_EQ(events_.lost, 1);
}

TEST_F(WorkerGroupTest, UnitsOfWorkKeepARunAlive) {
  Start(1);
  Run();
  int64_t units = 0;
  Pass(absl::Minutes(10), [&] { return units += 1; });
  EXPECT_EQ(events_.lost, 0);
}

TEST_F(WorkerGroupTest, NewsOfTheModelAndWhatIsNotKnownAreNoProgress) {
  Start(1);
  Run();
  const auto units = [&] {
    Say(*links_[0], [](v1::WorkerMessage& m) { m.mutable_model(); });
    Say(*links_[0], [](v1::WorkerMessage&) {});  // a message of a newer version
    return 0;
  };
  Pass(absl::Seconds(62), units);
  EXPECT_EQ(events_.reason, LossReason::kStalled);
}

TEST_F(WorkerGroupTest, AStepThatIsExpectedToTakeLongMayTakeTenTimesThat) {
  Start(1);
  Run();
  Say(*links_[0], [](v1::WorkerMessage& m) {
    m.mutable_stage()->set_video_id("job");
    m.mutable_stage()->set_attempt(1);
    m.mutable_stage()->set_stage(v1::STAGE_DENOISE);
    m.mutable_stage()->set_total_steps(8);
    m.mutable_stage()->set_expected_seconds(160);  // 20 s per step
  });
  Pass(absl::Seconds(198), [] { return 0; });
  EXPECT_EQ(events_.lost, 0);
  Pass(absl::Seconds(4), [] { return 0; });
  EXPECT_EQ(events_.reason, LossReason::kStalled);
}

TEST_F(WorkerGroupTest, AStageThatDoesNotExistEndsTheGroup) {
  Start(1);
  Run();
  Say(*links_[0], [](v1::WorkerMessage& m) {
    m.mutable_step()->set_video_id("job");
    m.mutable_step()->set_attempt(1);
    m.mutable_step()->set_stage(v1::STAGE_UPSAMPLE);
    m.mutable_step()->set_part(2);
  });
  EXPECT_EQ(events_.reason, LossReason::kRankFailed);
}

TEST_F(WorkerGroupTest, AnIdleGroupNeedNotProgress) {
  Start(1);
  Pass(absl::Hours(1), [] { return 0; });
  EXPECT_EQ(events_.lost, 0);
}

TEST_F(WorkerGroupTest, ACancelReachesEveryRankOnce) {
  Start(2);
  Run();
  group_->CancelRun(now_);
  group_->CancelRun(now_);
  for (const auto& link : links_) {
    EXPECT_TRUE(link->Next().has_run());
    EXPECT_EQ(link->Next().cancel().video_id(), "job");
    EXPECT_TRUE(link->empty());
  }
}

TEST_F(WorkerGroupTest, AGroupThatIgnoresACancelIsLostThoughItMakesProgress) {
  Start(1);
  Run();
  group_->CancelRun(now_);
  int64_t units = 0;
  Pass(absl::Minutes(5), [&] { return units += 1; });
  EXPECT_EQ(events_.reason, LossReason::kCancelIgnored);
}

TEST_F(WorkerGroupTest, DrainsAfterItsRun) {
  Start(1);
  Run();
  group_->Drain();
  EXPECT_EQ(group_->state(), WorkerGroup::State::kDraining);
  EXPECT_FALSE(group_->serving());
  End(*links_[0], absl::StatusCode::kOk);
  EXPECT_EQ(group_->state(), WorkerGroup::State::kDrained);
}

TEST_F(WorkerGroupTest, RankZeroSaysThatItsModelHasOtherLorasAndNobodyElseDoes) {
  Start(2);
  Say(*links_[0], [](v1::WorkerMessage& m) { m.mutable_model()->add_loras("ink"); });
  EXPECT_EQ(events_.changes, 1);
  EXPECT_EQ(group_->ready().model().loras(0), "ink");
  EXPECT_EQ(group_->ready().precision(), "bf16");
  Say(*links_[1], [](v1::WorkerMessage& m) { m.mutable_model()->add_loras("oil"); });
  EXPECT_EQ(events_.lost, 1);
  EXPECT_THAT(events_.why, HasSubstr("rank 1 failed: it describes a different model"));
}

TEST_F(WorkerGroupTest, ARankThatDescribesAnotherModelLosesItsGroup) {
  Start(1);
  Say(*links_[0], [](v1::WorkerMessage& m) { m.mutable_model()->set_id("another"); });
  EXPECT_EQ(events_.lost, 1);
  EXPECT_EQ(events_.changes, 0);
}

}  // namespace
}  // namespace kinora
