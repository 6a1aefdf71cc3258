#include "server/frontend/jobs/job_watch.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Job "a" in a store that other processes write to as well: Commit stores an event, and the test decides when and how
// often its news reach the mailbox, and when a read is answered.
class SharedStore : public EventSource {
 public:
  absl::StatusOr<std::shared_ptr<Subscription>> Subscribe(const JobId& id, std::function<void()> wake) override {
    return hub_.Subscribe(id, std::move(wake));
  }
  void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) override {
    EXPECT_EQ(id, "a");
    reads_.push_back({sequence, std::move(done)});
  }

  void Commit(int64_t count = 1) {
    for (int64_t i = 0; i < count; ++i) {
      v1::VideoEvent& event = stored_.emplace_back();
      event.set_video_id("a");
      event.set_sequence(std::ssize(stored_));
      event.mutable_stage()->set_stage("denoise");
    }
  }
  void CommitEnd() {
    Commit();
    video_.set_state(v1::Video::COMPLETED);
    *stored_.back().mutable_terminal() = video_;
  }
  void Tell(int64_t sequence) { hub_.Publish(stored_[sequence - 1]); }
  void TellStep(int step) {
    v1::VideoEvent event;
    event.set_video_id("a");
    event.mutable_step()->set_step(step);
    event.mutable_step()->set_stage("denoise");
    hub_.PublishStep(event);
  }

  int64_t reads() const { return std::ssize(reads_); }
  // Answers the oldest read, whose sequence it returns; `from`: without the events before it.
  int64_t AnswerRead(int64_t from = 1) {
    auto [after, done] = std::move(reads_.front());
    reads_.pop_front();
    JobHistory history{.video = video_, .events = {}, .last_sequence = std::ssize(stored_)};
    for (const v1::VideoEvent& event : stored_) {
      if (event.sequence() > after && event.sequence() >= from) history.events.push_back(event);
    }
    done(std::move(history));
    return after;
  }
  void FailRead(const absl::Status& why) {
    auto done = std::move(reads_.front().second);
    reads_.pop_front();
    done(why);
  }

  v1::Video video_;

 private:
  FakeClock clock_;
  EventHub hub_{clock_, absl::Hours(1), /*max_subscriptions=*/1};
  std::vector<v1::VideoEvent> stored_;
  std::deque<std::pair<int64_t, Done<JobHistory>>> reads_;
};

class JobWatchTest : public testing::Test {
 protected:
  JobWatchTest() { store_.video_.set_id("a"); }
  void Watch(int64_t after = 0) {
    auto watch = JobWatch::Open(store_, "a", after, [this] { ++wakes_; });
    ASSERT_THAT(watch, IsOk());
    watch_ = *std::move(watch);
    watch_->Start();
  }
  // Watches a job with `count` stored events, all of which are delivered.
  void WatchAll(int64_t count) {
    store_.Commit(count);
    Watch();
    store_.AnswerRead();
    ASSERT_EQ(std::ssize(Take()), count + 1);
  }
  // Takes what can be taken: "snapshot 0", "2", "step 2".
  std::vector<std::string> Take() {
    std::vector<std::string> out;
    while (true) {
      const auto event = watch_->Next();
      if (!event.ok()) return out.push_back(absl::StatusCodeToString(event.status().code())), out;
      if (!event->has_value()) return out;
      const char* kind = (*event)->has_snapshot()   ? "snapshot "
                         : (*event)->has_step()     ? "step "
                         : (*event)->has_terminal() ? "end "
                                                    : "";
      out.push_back(absl::StrCat(kind, (*event)->sequence()));
    }
  }

  SharedStore store_;
  std::shared_ptr<JobWatch> watch_;
  int wakes_ = 0;
};

TEST_F(JobWatchTest, BeginsWithASnapshotAndWhatIsStoredAndGoesOnWithWhatIsNew) {
  store_.Commit(3);
  Watch(1);
  store_.Commit();
  store_.Tell(4);
  EXPECT_THAT(Take(), IsEmpty()) << "before the stored events are read";
  EXPECT_EQ(store_.AnswerRead(), 1);
  EXPECT_THAT(Take(), ElementsAre("snapshot 1", "2", "3", "4"));
  store_.TellStep(7);
  store_.Commit();
  store_.Tell(5);
  EXPECT_THAT(Take(), ElementsAre("5", "step 5"));
  EXPECT_EQ(store_.reads(), 0) << "nothing was missing";
}

TEST_F(JobWatchTest, DropsNewsThatRepeatAnEvent) {
  WatchAll(2);
  for (const int64_t sequence : {1, 2}) store_.Tell(sequence);
  EXPECT_THAT(Take(), IsEmpty());
  store_.Commit(2);
  for (const int64_t sequence : {3, 3, 2, 4, 3, 4}) store_.Tell(sequence);
  EXPECT_THAT(Take(), ElementsAre("3", "4"));
  EXPECT_EQ(store_.reads(), 0);
}

TEST_F(JobWatchTest, ReadsTheEventsThatNewsSkip) {
  WatchAll(2);
  store_.Commit(3);
  store_.Tell(5);
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_THAT(Take(), IsEmpty());
  ASSERT_EQ(store_.reads(), 1) << "once, however often it is asked";
  const int before = wakes_;
  EXPECT_EQ(store_.AnswerRead(), 2);
  EXPECT_EQ(wakes_, before + 1);
  store_.Tell(4);  // late
  EXPECT_THAT(Take(), ElementsAre("3", "4", "5"));
  store_.Commit();
  store_.Tell(6);
  EXPECT_THAT(Take(), ElementsAre("6"));
  EXPECT_EQ(store_.reads(), 0);
}

TEST_F(JobWatchTest, PutsNewsInOrder) {
  WatchAll(1);
  store_.Commit(3);
  for (const int64_t sequence : {4, 2, 3}) store_.Tell(sequence);
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_EQ(store_.AnswerRead(), 1);
  EXPECT_THAT(Take(), ElementsAre("2", "3", "4"));
  EXPECT_EQ(store_.reads(), 0);
}

TEST_F(JobWatchTest, AReadCanBringMoreThanTheNewsAndTheyAreDroppedThen) {
  WatchAll(1);
  store_.Commit(2);
  store_.Tell(3);
  EXPECT_THAT(Take(), IsEmpty());
  store_.Commit(2);
  store_.AnswerRead();
  store_.Tell(4);
  store_.Tell(5);
  EXPECT_THAT(Take(), ElementsAre("2", "3", "4", "5"));
}

TEST_F(JobWatchTest, AStepWaitsUntilTheGapBeforeItIsClosed) {
  WatchAll(1);
  store_.Commit(2);
  store_.Tell(3);
  store_.TellStep(1);
  EXPECT_THAT(Take(), IsEmpty());
  store_.TellStep(2);
  EXPECT_THAT(Take(), IsEmpty());
  store_.AnswerRead();
  EXPECT_THAT(Take(), ElementsAre("2", "3", "step 3"));
}

TEST_F(JobWatchTest, EndsIfAnEventThatWasAnnouncedIsMissing) {
  WatchAll(1);
  store_.Commit(3);
  store_.Tell(4);
  EXPECT_THAT(Take(), IsEmpty());
  store_.AnswerRead(/*from=*/4);
  const auto event = watch_->Next();
  EXPECT_THAT(event, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("event 2 of job \"a\" is missing")));
  EXPECT_THAT(Take(), ElementsAre("DATA_LOSS"));
}

TEST_F(JobWatchTest, EndsIfTheEventsCannotBeRead) {
  WatchAll(1);
  store_.Commit(2);
  store_.Tell(3);
  EXPECT_THAT(Take(), IsEmpty());
  store_.FailRead(absl::NotFoundError("deleted"));
  store_.Tell(2);
  EXPECT_THAT(Take(), ElementsAre("NOT_FOUND"));
}

TEST_F(JobWatchTest, RejectsASequenceAfterTheLastEvent) {
  store_.Commit(2);
  Watch(3);
  store_.AnswerRead();
  EXPECT_THAT(watch_->Next(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nearest: 2")));
}

TEST_F(JobWatchTest, RepeatsTheEndForAClientThatHasAllEvents) {
  store_.Commit(2);
  store_.CommitEnd();
  Watch(3);
  store_.AnswerRead();
  EXPECT_THAT(Take(), ElementsAre("snapshot 3", "end 3"));
}

TEST_F(JobWatchTest, IsNotWokenOnceItIsClosed) {
  WatchAll(1);
  EXPECT_THAT(JobWatch::Open(store_, "a", 0, [] {}), StatusIs(absl::StatusCode::kResourceExhausted));
  watch_->Close();
  EXPECT_THAT(JobWatch::Open(store_, "a", 0, [] {}), IsOk()) << "its place is free";
  const int before = wakes_;
  store_.Commit();
  store_.Tell(2);
  EXPECT_EQ(wakes_, before);
}

// Another process commits, and a poll tells of some of the events, late, twice and in any order, but of the last one in
// the end.
TEST_F(JobWatchTest, DeliversEachEventOnceAndInOrderWhateverTheNews) {
  std::mt19937 random(1);
  WatchAll(1);
  int64_t stored = 1, delivered = 1;
  const auto take = [&] {
    for (const std::string& event : Take()) ASSERT_EQ(event, absl::StrCat(++delivered));
  };
  for (int i = 0; i < 3000; ++i) {
    switch (random() % 4) {
      case 0:
        store_.Commit();
        ++stored;
        break;
      case 1:
        store_.Tell(1 + static_cast<int64_t>(random() % stored));
        break;
      case 2:
        if (store_.reads() > 0) store_.AnswerRead();
        break;
      default:
        take();
    }
  }
  store_.Tell(stored);
  for (take(); store_.reads() > 0; take()) store_.AnswerRead();
  EXPECT_EQ(delivered, stored);
  EXPECT_GT(stored, 500);
}

}  // namespace
}  // namespace kinora
