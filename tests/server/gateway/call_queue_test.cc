#include "server/gateway/call_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "absl/synchronization/notification.h"
#include "google/rpc/error_details.pb.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Call {
 public:
  explicit Call(CallQueue& queue)
      : queue_(queue), turn_(queue.Enter([this](auto place) { OnTurn(std::move(place)); })) {}
  bool began() const { return answered_.HasBeenNotified() && result_.ok(); }
  void Release() { result_->reset(); }
  void Leave() { queue_.Leave(turn_); }
  absl::Status AwaitError() {
    answered_.WaitForNotification();
    return result_.status();
  }

 private:
  void OnTurn(absl::StatusOr<CallQueue::Place> place) {
    result_ = std::move(place);
    answered_.Notify();
  }

  CallQueue& queue_;
  absl::Notification answered_;
  absl::StatusOr<CallQueue::Place> result_ = absl::UnknownError("no answer");
  const int64_t turn_;
};

bool HasRetryInfo(const absl::Status& status) {
  return status.GetPayload("type.googleapis.com/" + google::rpc::RetryInfo::descriptor()->full_name()).has_value();
}

TEST(CallQueueTest, AFewCallsBeginAtOnceAndTheOthersInTheirOrder) {
  CallQueue queue({.beginning = 2});
  std::vector<int> began;
  std::deque<CallQueue::Place> places;
  for (int i = 0; i < 6; ++i) {
    queue.Enter([&began, &places, i](absl::StatusOr<CallQueue::Place> place) {
      began.push_back(i);
      places.push_back(*std::move(place));
    });
  }
  EXPECT_THAT(began, ElementsAre(0, 1));
  for (const size_t expected : {3, 4, 5, 6, 6, 6}) {
    const CallQueue::Place ended = std::move(places.front());  // released at the end of the loop's body
    places.pop_front();
    EXPECT_LE(began.size(), expected);
  }
  EXPECT_THAT(began, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(CallQueueTest, APlaceThatNobodyWaitsForIsFree) {
  CallQueue queue({.beginning = 1});
  for (int i = 0; i < 3; ++i) {
    Call call(queue);
    EXPECT_TRUE(call.began()) << i;
    call.Release();
  }
}

TEST(CallQueueTest, BeyondTheBoundACallFailsAndMayTryAgain) {
  CallQueue queue({.beginning = 1, .waiting = 2});
  Call first(queue), second(queue), third(queue), fourth(queue);
  const absl::Status status = fourth.AwaitError();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("more than 2 calls wait")));
  EXPECT_TRUE(HasRetryInfo(status));
  first.Release();
  EXPECT_TRUE(second.began());
  EXPECT_FALSE(third.began());
  Call fifth(queue);  // in the place that the second has left
  second.Release();
  EXPECT_TRUE(third.began());
  third.Release();
  EXPECT_TRUE(fifth.began());
  fifth.Release();
}

TEST(CallQueueTest, ACallThatLeavesMakesRoom) {
  CallQueue queue({.beginning = 1, .waiting = 1});
  Call first(queue), second(queue);
  second.Leave();
  EXPECT_THAT(second.AwaitError(), StatusIs(absl::StatusCode::kCancelled));
  Call third(queue);
  first.Leave();  // it has begun: no effect
  EXPECT_FALSE(third.began());
  first.Release();
  EXPECT_TRUE(third.began());
  third.Release();
}

TEST(CallQueueTest, NoCallWaitsLongerThanItsTime) {
  FakeClock clock;
  CallQueue queue({.beginning = 1, .wait = absl::Seconds(10)}, clock);
  Call first(queue), second(queue);
  clock.Advance(absl::Seconds(6));
  Call third(queue);
  clock.Advance(absl::Seconds(4));
  const absl::Status status = second.AwaitError();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("for 10s")));
  EXPECT_TRUE(HasRetryInfo(status));
  clock.Advance(absl::Seconds(5));
  EXPECT_FALSE(third.began());
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(third.AwaitError(), StatusIs(absl::StatusCode::kUnavailable));
  first.Release();
  Call fourth(queue);
  EXPECT_TRUE(fourth.began());
  fourth.Release();
}

}  // namespace
}  // namespace kinora
