#include "server/net/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

TEST(EventLoop, RunsTasksInTheOrderInWhichTheyWerePosted) {
  FakeClock clock;
  EventLoop loop(clock);
  std::string order;
  absl::Notification done;
  for (char c : {'a', 'b', 'c'}) loop.Post([&order, c] { order += c; });
  loop.Post([&] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_EQ(order, "abc");
}

TEST(EventLoop, RunsTimersInTheOrderOfTheirTimesAndNotBefore) {
  FakeClock clock;
  EventLoop loop(clock);
  std::string order;
  absl::Notification first, last;
  loop.PostAt(clock.Now() + absl::Seconds(2), [&] { order += "2", last.Notify(); });
  loop.PostAt(clock.Now() + absl::Seconds(1), [&] { order += "1", first.Notify(); });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Milliseconds(1500));
  first.WaitForNotification();
  absl::Notification turn;
  loop.Post([&] { turn.Notify(); });
  turn.WaitForNotification();
  EXPECT_FALSE(last.HasBeenNotified());
  clock.Advance(absl::Seconds(1));
  last.WaitForNotification();
  EXPECT_EQ(order, "12");
}

TEST(EventLoop, DropsWhatIsLeftWhenItStops) {
  FakeClock clock;
  const auto held = std::make_shared<int>(0);
  bool ran = false;
  {
    EventLoop loop(clock);
    loop.PostAt(clock.Now() + absl::Hours(1), [held, &ran] { ran = true; });
    EXPECT_EQ(held.use_count(), 2);
    loop.Stop();
    loop.Post([held, &ran] { ran = true; });
    EXPECT_EQ(held.use_count(), 1);
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace kinora
