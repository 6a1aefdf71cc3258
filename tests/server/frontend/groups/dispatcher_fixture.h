// The dispatcher with the real store, queue and hub. Ranks are links that the test controls, as is the clock.
#ifndef KINORA_TESTS_SERVER_FRONTEND_GROUPS_DISPATCHER_FIXTURE_H_
#define KINORA_TESTS_SERVER_FRONTEND_GROUPS_DISPATCHER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/frontend/groups/dispatcher.h"
#include "server/frontend/jobs/frontend_lease.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_frontend_records.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/recording_link.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"
#include "tests/testing/watched_loops.h"

namespace kinora {

class DispatcherTest : public testing::Test {
 protected:
  using State = v1::Video::State;
  explicit DispatcherTest(int max_lost_groups = 2)
      : metrics_(page_.registry()), hub_(clock_, absl::Hours(1), 100), queue_(100) {
    auto opened = SqliteJobStore::Open(":memory:", {.max_lost_groups = max_lost_groups, .default_ttl = absl::Hours(1)},
                                       clock_, [this](const v1::VideoEvent& event) {
                                         hub_.Publish(event);
                                         absl::MutexLock lock(&mu_);
                                         events_.push_back(event);
                                       });
    KINORA_CHECK(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    StartDispatcher();
  }
  void StartDispatcher() {
    dispatcher_.reset();
    queue_.SetStore(*store_);
    catalogue_ = std::make_unique<SqliteCatalogueStore>(store_->file());
    owner_ = absl::StrCat("me ", ++starts_);  // drawn at each start
    DispatcherOptions options{.owner = owner_, .artifact_directory = "/artifacts"};
    options.identity = {.commit = "c0ffee", .protocol = "words"};
    options.intake = intake_;
    options.inputs = inputs_;
    options.points = points_;
    options.preempt_after = preempt_after_;
    options.look_interval = look_interval_;
    options.known_models = known_models_;
    dispatcher_ = std::make_unique<Dispatcher>(
        *store_, *catalogue_, queue_, hub_, Clocks{.date = date_, .steady = clock_}, &metrics_, options, loops_.Make());
  }

  static v1::Hello HelloOf(const std::string& incarnation, const std::string& group = "0") {
    v1::Hello hello;
    hello.set_group(group);
    hello.set_incarnation(incarnation);
    hello.set_world_size(1);
    hello.set_commit("c0ffee");
    hello.set_protocol("words");
    return hello;
  }
  // Returns the status with which the dispatcher rejects a rank.
  absl::Status Rejection(const v1::Hello& hello) {
    const auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(hello, link);
    return link->AwaitClosed();
  }
  // Joins a rank and reports its model as loaded.
  std::shared_ptr<RecordingLink> JoinGroup(const std::string& incarnation, const std::string& group = "0",
                                           const std::string& model = "tiny") {
    auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(HelloOf(incarnation, group), link);
    EXPECT_EQ(link->Next().welcome().artifact_directory(), "/artifacts");
    v1::WorkerMessage ready;
    ready.mutable_ready()->mutable_model()->set_id(model);
    dispatcher_->Receive(link, ready);
    return link;
  }

  JobId Submit(v1::CreateVideoRequest request = {}) {
    if (request.model().empty()) request.set_model("tiny");
    request.mutable_generation()->set_prompt("a kite");
    const auto created = WaitFor<Created>(
        [&](Done<Created> done) { store_->Create(request, request.generation(), 0, std::move(done)); });
    KINORA_CHECK(created.ok()) << created.status();
    KINORA_CHECK(queue_.Reserve().ok());
    queue_.Push(ToQueuedJob(created->video, request.scheduling()));
    return created->video.id();
  }
  v1::Run AwaitRun(RecordingLink& link) {
    const v1::FrontendMessage message = link.Next();
    EXPECT_TRUE(message.has_run()) << message.ShortDebugString();
    return message.run();
  }
  void End(const std::shared_ptr<RecordingLink>& link, const v1::Run& run, const absl::Status& status,
           double seconds = 0) {
    v1::WorkerMessage message;
    v1::RunResult& result = *message.mutable_run_result();
    result.set_video_id(run.video_id());
    result.set_attempt(run.attempt());
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    if (status.ok()) result.add_artifacts()->set_id("video.mp4");
    if (seconds > 0) result.mutable_speed()->add_stages()->set_seconds(seconds);
    dispatcher_->Receive(link, message);
  }
  // Waits until a stored event shows the job in `state` for the n-th time, n = `times`.
  v1::Video AwaitState(const JobId& id, State state, int times = 1);
  // Returns once nothing is left to do: the loops have no task whose time has come, the store has answered all calls,
  // and what followed from that has been done too. Threads of a test do not count.
  void Settle() {
    for (int64_t ended = -1, before = -2; ended != before;) {
      before = std::exchange(ended, loops_.AwaitIdle());
      store_->Flush();
    }
  }
  std::vector<v1::WorkerGroup> Groups() {
    return *WaitFor<std::vector<v1::WorkerGroup>>([&](auto done) { dispatcher_->ListGroups(std::move(done)); });
  }
  // Advances the clock while `links` send heartbeats.
  void Pass(absl::Duration duration, const std::vector<std::shared_ptr<RecordingLink>>& links) {
    for (absl::Duration passed; passed < duration; passed += absl::Seconds(1)) {
      clock_.Advance(absl::Seconds(1));
      for (const auto& link : links) {
        v1::WorkerMessage beat;
        beat.mutable_heartbeat()->set_units_done(++units_);
        dispatcher_->Receive(link, beat);
      }
      Settle();
    }
  }
  void RecoverAll() {
    SqliteFrontendRecords frontends(store_->file(), clock_);
    EndOtherLeases(frontends, owner_);
    const auto jobs = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store_->Unfinished(std::move(done)); });
    for (const UnfinishedJob& job : *jobs)
      EXPECT_THAT(WaitForStatus([&](Finished done) { dispatcher_->Recover(job, std::move(done)); }), IsOk());
  }
  void CancelInStore(const JobId& id) {
    ASSERT_THAT(WaitFor<v1::Video>([&](Done<v1::Video> done) { store_->Cancel(id, std::move(done)); }), IsOk());
  }

  FakeClock clock_;
  SteppingDate date_{clock_};
  WatchedLoops loops_{clock_};  // of the dispatcher, and those that a test gives its other parts
  MetricsPage page_;
  FrontendMetrics metrics_;
  EventHub hub_;
  JobQueue queue_;
  absl::Mutex mu_;
  std::vector<v1::VideoEvent> events_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<SqliteJobStore> store_;
  std::unique_ptr<SqliteCatalogueStore> catalogue_;
  FrontendId owner_;
  int starts_ = 0;
  ArtifactIntake* intake_ = nullptr;
  InputSupply* inputs_ = nullptr;
  ResumeFiles* points_ = nullptr;
  absl::Duration preempt_after_ = absl::ZeroDuration(), look_interval_ = absl::ZeroDuration();
  std::vector<v1::ModelInfo> known_models_;  // used by StartDispatcher
  std::unique_ptr<Dispatcher> dispatcher_;
  int64_t units_ = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_GROUPS_DISPATCHER_FIXTURE_H_
