#include "server/frontend/jobs/shared_events.h"

#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "server/frontend/jobs/job_watch.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "server/net/event_loop.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

// A store whose commits nobody tells.
class SharedEventsTest : public testing::Test {
 protected:
  SharedEventsTest() {
    auto opened = SqliteJobStore::Open(":memory:", {}, clock_, [](const v1::VideoEvent&) {});
    KINORA_CHECK(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    events_ = std::make_unique<SharedEvents>(hub_, *store_, absl::Seconds(2), std::make_unique<EventLoop>(clock_));
    auto created = WaitFor<Created>([&](auto done) { store_->Create({}, {}, 0, std::move(done)); });
    KINORA_CHECK(created.ok()) << created.status();
    id_ = created->video.id();
  }
  ~SharedEventsTest() override {
    if (watch_ != nullptr) watch_->Close();
    events_->Stop();
    store_->Flush();
  }

  void Watch() {
    auto opened = JobWatch::Open(*events_, id_, 0, [this] {
      absl::MutexLock lock(&mu_);
      woken_ = true;
    });
    KINORA_CHECK(opened.ok()) << opened.status();
    watch_ = *std::move(opened);
    watch_->Start();
  }
  v1::VideoEvent Next() {
    while (true) {
      const auto next = watch_->Next();
      KINORA_CHECK(next.ok()) << next.status();
      if (next->has_value()) return **next;
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&woken_));
      woken_ = false;
    }
  }

  FakeClock clock_;
  EventHub hub_{clock_, absl::Hours(1), 10};
  std::unique_ptr<SqliteJobStore> store_;
  std::unique_ptr<SharedEvents> events_;
  JobId id_;
  absl::Mutex mu_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<JobWatch> watch_;
};

TEST_F(SharedEventsTest, NewsFromElsewhereIsReadAtOnce) {
  Watch();
  EXPECT_TRUE(Next().has_snapshot());
  EXPECT_EQ(Next().sequence(), 1);
  ASSERT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Cancel(id_, std::move(done)); }), IsOk());
  events_->ReadNow({"of no interest", id_});
  EXPECT_EQ(Next().terminal().state(), v1::Video::CANCELLED) << "the clock stands still, so nothing was polled";
}

TEST_F(SharedEventsTest, TheLastEventIsHeardAlthoughItsNewsWasLost) {
  Watch();
  EXPECT_TRUE(Next().has_snapshot());
  EXPECT_EQ(Next().sequence(), 1);
  ASSERT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Cancel(id_, std::move(done)); }), IsOk());
  EXPECT_EQ(*watch_->Next(), std::nullopt);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Next().terminal().state(), v1::Video::CANCELLED);
}

TEST_F(SharedEventsTest, NewsIsHeardAtOnceAndNotOnceMoreByThePoll) {
  Watch();
  Next();
  Next();
  ASSERT_THAT(WaitFor<v1::Video>([&](auto done) { store_->Cancel(id_, std::move(done)); }), IsOk());
  const auto history = WaitFor<JobHistory>([&](auto done) { store_->EventsAfter(id_, 1, std::move(done)); });
  ASSERT_EQ(history->events.size(), 1u);
  events_->Hear(history->events[0]);
  EXPECT_EQ(Next().terminal().state(), v1::Video::CANCELLED);
  clock_.Advance(absl::Seconds(2));
  store_->Flush();
  EXPECT_EQ(*watch_->Next(), std::nullopt);
}

}  // namespace
}  // namespace kinora
