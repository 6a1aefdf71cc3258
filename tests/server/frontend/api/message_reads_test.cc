#include "server/frontend/api/message_reads.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(MessageReads, OneTooManyGivesUpTheOldestAtOnce) {
  FakeClock clock;
  MessageReads reads({.calls = 2, .time = absl::Seconds(1)}, clock);
  absl::Status why;
  const auto nobody = [](const absl::Status& status) { ADD_FAILURE() << status; };
  const int64_t oldest = reads.Begin([&](const absl::Status& status) { why = status; });
  const int64_t second = reads.Begin(nobody);
  EXPECT_THAT(why, IsOk());
  const int64_t third = reads.Begin(nobody);
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more than 2 calls")));
  EXPECT_TRUE(why.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value());
  EXPECT_FALSE(reads.End(oldest));
  EXPECT_TRUE(reads.End(second));
  EXPECT_FALSE(reads.End(second));
  EXPECT_TRUE(reads.End(third));
}

TEST(MessageReads, EachHasItsTimeAndOneThatEndedIsLeftAlone) {
  FakeClock clock;
  MessageReads reads({.calls = 10, .time = absl::Seconds(1)}, clock);
  const int64_t ended = reads.Begin([](const absl::Status& status) { ADD_FAILURE() << status; });
  clock.Advance(absl::Milliseconds(500));
  absl::Notification given_up;
  absl::Status why;
  const int64_t late = reads.Begin([&](const absl::Status& status) {
    why = status;
    given_up.Notify();
  });
  EXPECT_TRUE(reads.End(ended));
  clock.AwaitWaiters(1);
  clock.Advance(absl::Milliseconds(500));  // the time of the read that ended
  clock.AwaitWaiters(1);
  EXPECT_FALSE(given_up.HasBeenNotified());
  clock.Advance(absl::Milliseconds(500));
  given_up.WaitForNotification();
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("within 1s")));
  EXPECT_FALSE(reads.End(late));
}

}  // namespace
}  // namespace kinora
