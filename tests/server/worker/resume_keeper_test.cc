// Resume points of a run: when they are taken, that they are durable before they are announced, and that a store or a
// frontend that fails or hangs does not hold the run.
#include "server/worker/resume_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/metrics.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/worker/file_lines.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_model.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr Stage kDenoise{StageKind::kDenoise};

Progress Step(int32_t step) { return {.stage = kDenoise, .step = step, .total_steps = 10}; }

class ResumeKeeperTest : public testing::Test {
 protected:
  ResumeKeeperTest() {
    run_.set_video_id("job");
    run_.set_attempt(2);
    run_.set_artifact_key("job/2");
  }
  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(store_, DirectoryArtifactStore::At(directory_.File("artifacts")));
  }

  std::unique_ptr<ResumeKeeper> Keeper(absl::Duration patience = absl::Minutes(1), UploadLine* uploads = nullptr) {
    const auto fraction = [](const Progress& progress) { return progress.step / 10.0; };
    return std::make_unique<ResumeKeeper>(
        context_, run_, prepared_, RunArtifacts{.store = *store_, .uploads = uploads},
        ResumeKeeper::Options{
            .interval = absl::Seconds(30), .begin = clock_.Now(), .fraction = fraction, .patience = patience});
  }
  // Takes a point after this step and waits for the result of storing it.
  void Take(std::unique_ptr<ResumeKeeper>& keeper, int32_t step) {
    clock_.Advance(absl::Seconds(30));
    ASSERT_TRUE(keeper->Wants(Step(step)));
    keeper->Keep({.stage = 0, .step = step, .values = {}});
  }
  void Leave() {
    keep_ = true;
    cancelled_ = true;
  }
  double Points(const std::string& outcome) { return metrics_.resume_points_total.Add({{"outcome", outcome}}).Value(); }
  std::vector<v1::ResumePoint> Sent() {
    absl::MutexLock lock(&mu_);
    return sent_;
  }
  // Whether the file of the point was there, whole, when its mark was sent.
  void Send(const v1::WorkerMessage& message) {
    const v1::ResumePoint& point = message.resume().point();
    EXPECT_EQ(message.resume().video_id(), "job");
    EXPECT_EQ(message.resume().attempt(), 2);
    const std::string bytes = ReadFile(absl::StrCat(store_->root(), "/job/2/", point.id()));
    EXPECT_EQ(point.sha256(), Sha256Hex(bytes));
    EXPECT_EQ(point.bytes(), static_cast<int64_t>(bytes.size()));
    absl::MutexLock lock(&mu_);
    sent_.push_back(point);
  }

  TemporaryDirectory directory_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_{registry_};
  FakeModel model_;
  FakeClock clock_;
  std::unique_ptr<DirectoryArtifactStore> store_;
  v1::Run run_;
  PreparedRun prepared_;
  std::atomic<bool> cancelled_ = false, keep_ = false;
  std::atomic<int64_t> units_done_ = 0;
  absl::Mutex mu_;
  std::vector<v1::ResumePoint> sent_ ABSL_GUARDED_BY(mu_);
  RunContext context_{.model = model_,
                      .metrics = metrics_,
                      .send = [this](const v1::WorkerMessage& message) { Send(message); },
                      .cancelled = cancelled_,
                      .units_done = units_done_,
                      .keep_state = &keep_,
                      .steady = clock_};
};

TEST_F(ResumeKeeperTest, APointIsTakenAtTheIntervalAndDurableBeforeItIsAnnounced) {
  auto keeper = Keeper();
  EXPECT_FALSE(keeper->Wants(Step(1)));
  clock_.Advance(absl::Seconds(29));
  EXPECT_FALSE(keeper->Wants(Step(2)));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(keeper->Wants(Step(3)));
  keeper->Keep({.stage = 0, .step = 3, .values = {}});
  EXPECT_FALSE(keeper->Wants(Step(4)));  // the interval begins anew
  keeper.reset();                        // waits for the point
  ASSERT_EQ(Sent().size(), 1u);
  const v1::ResumePoint point = Sent()[0];
  EXPECT_EQ(point.id(), "resume-1");
  EXPECT_EQ(StageOf(point), kDenoise);
  EXPECT_EQ(point.step(), 3);
  EXPECT_EQ(point.total_steps(), 10);
  EXPECT_EQ(point.fraction(), 0.3);
  EXPECT_EQ(ReadFile(store_->root() + "/job/2/resume-1"), "the state after step 3");
  EXPECT_EQ(Points("stored"), 1);
  EXPECT_EQ(Points("failed"), 0);
  EXPECT_EQ(metrics_.resume_point_bytes_total.Value(), static_cast<double>(point.bytes()));
}

TEST_F(ResumeKeeperTest, AnIntervalOfZeroTakesNone) {
  ResumeKeeper keeper(context_, run_, prepared_, {.store = *store_},
                      {.interval = absl::ZeroDuration(), .begin = clock_.Now(), .fraction = [](auto&) { return 0.0; }});
  clock_.Advance(absl::Hours(10));
  EXPECT_FALSE(keeper.Wants(Step(1)));
}

// The run does not wait for a point that is being stored: the next point waits.
TEST_F(ResumeKeeperTest, OnePointIsStoredAtATime) {
  absl::Notification begun, go_on;
  context_.send = [&](const v1::WorkerMessage& message) {
    begun.Notify();
    go_on.WaitForNotification();
    Send(message);
  };
  auto keeper = Keeper();
  Take(keeper, 1);
  begun.WaitForNotification();
  clock_.Advance(absl::Seconds(30));
  EXPECT_FALSE(keeper->Wants(Step(2)));
  go_on.Notify();
  keeper.reset();
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_F(ResumeKeeperTest, APointThatCannotBeStoredIsCountedAndTheNextOneIsTried) {
  std::filesystem::remove_all(store_->root());
  auto keeper = Keeper();
  Take(keeper, 1);
  keeper.reset();
  EXPECT_EQ(Points("failed"), 1);
  EXPECT_EQ(Points("stored"), 0);
  EXPECT_TRUE(Sent().empty());
  KINORA_ASSERT_OK_AND_ASSIGN(store_, DirectoryArtifactStore::At(store_->root()));
  keeper = Keeper();
  Take(keeper, 2);
  keeper.reset();
  EXPECT_EQ(Points("stored"), 1);
}

TEST_F(ResumeKeeperTest, ARunThatIsToldToLeaveGoesOnUntilItsStateIsStored) {
  auto keeper = Keeper();
  EXPECT_FALSE(keeper->HoldsBack(Step(1)));
  Leave();
  EXPECT_TRUE(keeper->HoldsBack(Step(1)));
  EXPECT_FALSE(keeper->HoldsBack(Step(10)));  // no later step of the stage would store it
  EXPECT_FALSE(keeper->HoldsBack({.stage = {StageKind::kDecodeVideo}, .step = 1, .total_steps = 4}));
  ASSERT_TRUE(keeper->Wants(Step(2)));  // before the interval is over
  keeper->Keep({.stage = 0, .step = 2, .values = {}});
  EXPECT_EQ(Sent().size(), 1u);  // stored when Keep returns
  EXPECT_FALSE(keeper->HoldsBack(Step(2)));
  EXPECT_FALSE(keeper->Wants(Step(3)));
}

TEST_F(ResumeKeeperTest, ACancelThatKeepsNothingHoldsNothingBack) {
  auto keeper = Keeper();
  cancelled_ = true;
  EXPECT_FALSE(keeper->HoldsBack(Step(1)));
  EXPECT_FALSE(keeper->Wants(Step(1)));
}

TEST_F(ResumeKeeperTest, IsSentToAFrontendElsewhereBeforeItIsAnnounced) {
  std::vector<std::string> order;
  FileLines* back = nullptr;
  FileLines lines([&](const v1::WorkerMessage& message) {
    order.push_back(message.upload_chunk().name() + ": " + message.upload_chunk().data());
    v1::UploadAnswer answer;
    answer.set_video_id("job");
    answer.set_attempt(2);
    answer.set_name(message.upload_chunk().name());
    back->artifacts.Receive(answer);
  });
  back = &lines;
  context_.send = [&](const v1::WorkerMessage& message) { order.push_back(message.resume().point().sha256()); };
  auto keeper = Keeper(absl::Minutes(1), &lines.artifacts);
  Take(keeper, 4);
  keeper.reset();
  EXPECT_THAT(order, testing::ElementsAre("resume-1: the state after step 4", Sha256Hex("the state after step 4")));
  EXPECT_FALSE(std::filesystem::exists(store_->root() + "/job/2"));
}

// A frontend that takes the file and never answers.
class SilentFrontendTest : public ResumeKeeperTest {
 protected:
  FileLines lines_{[this](const v1::WorkerMessage&) { sent_piece_.Notify(); }};
  absl::Notification sent_piece_;
};

TEST_F(SilentFrontendTest, DoesNotHoldTheExitOfARunThatKeepsItsState) {
  auto keeper = Keeper(absl::Milliseconds(20), &lines_.artifacts);
  Leave();
  ASSERT_TRUE(keeper->Wants(Step(1)));
  keeper->Keep({.stage = 0, .step = 1, .values = {}});  // returns
  EXPECT_FALSE(keeper->HoldsBack(Step(1)));
  keeper.reset();  // returns
  EXPECT_EQ(Points("failed"), 1);
}

TEST_F(SilentFrontendTest, DoesNotHoldACancelledRunOrTheClip) {
  auto keeper = Keeper(absl::Hours(1), &lines_.artifacts);
  Take(keeper, 1);
  sent_piece_.WaitForNotification();
  cancelled_ = true;
  keeper.reset();  // returns at once
  EXPECT_EQ(Points("failed"), 1);
  EXPECT_TRUE(Sent().empty());
}

}  // namespace
}  // namespace kinora
