#include "server/worker/join_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "tests/testing/fake_frontend.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

v1::Hello HelloOf(int rank) {
  v1::Hello hello;
  hello.set_group("0");
  hello.set_rank(rank);
  hello.set_world_size(2);
  return hello;
}

TEST(JoinClient, SaysHelloAndIsWelcomed) {
  FakeFrontend frontend(absl::Seconds(7));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto client, JoinClient::Join({frontend.address()}, HelloOf(1), kPatience));
  EXPECT_EQ(client->welcome().heartbeat_interval().seconds(), 7);
  const v1::WorkerMessage first = frontend.Next();
  EXPECT_EQ(first.hello().rank(), 1);
  EXPECT_EQ(first.hello().world_size(), 2);
}

TEST(JoinClient, ARefusalIsTheFrontendsOwn) {
  FakeFrontend frontend(absl::Seconds(30), absl::FailedPreconditionError("this frontend is of another build"));
  EXPECT_THAT(JoinClient::Join({frontend.address()}, HelloOf(0), kPatience),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another build")));
}

TEST(JoinClient, NobodyListensIsSaidOncePatienceIsOver) {
  EXPECT_THAT(JoinClient::Join({"unix:/nowhere/worker.sock"}, HelloOf(0), absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/nowhere/worker.sock")));
}

// The process is stopped for an hour after each reading of the clock. This time does not count as the frontend's
// silence.
class ClockOfAStoppedProcess : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + absl::Hours(1) * looks_++; }
  bool AwaitUntil(absl::Mutex&, const absl::Condition&, absl::Time) override { return false; }
  int looks() const { return looks_; }

 private:
  mutable std::atomic<int> looks_ = 0;
};

TEST(JoinClient, ThePausesOfTheWorkerItselfDoNotUseUpItsPatience) {
  ClockOfAStoppedProcess clock;
  EXPECT_THAT(JoinClient::Join({"unix:/nowhere/worker.sock"}, HelloOf(0), absl::Seconds(1), clock),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_GE(clock.looks(), 4);  // each hour counts as 0.4 s
}

TEST(JoinClient, BeatsAsOftenAsItIsToldAndHandsOverWhatComes) {
  FakeFrontend frontend(absl::Milliseconds(5));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto client, JoinClient::Join({frontend.address()}, HelloOf(0), kPatience));
  std::atomic<int64_t> beats = 0;
  absl::Notification cancelled;
  client->Start(
      [&] {
        v1::Heartbeat beat;
        beat.set_units_done(++beats);
        return beat;
      },
      [&](const v1::FrontendMessage& message) {
        EXPECT_EQ(message.cancel().video_id(), "job");
        cancelled.Notify();
      },
      [](const absl::Status&) {});
  for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(frontend.NextHeartbeat().units_done(), i);
  v1::FrontendMessage cancel;
  cancel.mutable_cancel()->set_video_id("job");
  frontend.Send(cancel);
  cancelled.WaitForNotification();
  client->End();
}

TEST(JoinClient, ABrokenStreamIsToldOnceAndWhatIsSentThenIsDropped) {
  FakeFrontend frontend;
  KINORA_ASSERT_OK_AND_ASSIGN(const auto client, JoinClient::Join({frontend.address()}, HelloOf(0), kPatience));
  int ends = 0;
  absl::Notification ended;
  client->Start([] { return v1::Heartbeat(); }, [](const v1::FrontendMessage&) {},
                [&](const absl::Status& status) {
                  EXPECT_FALSE(status.ok());
                  ++ends;
                  ended.Notify();
                });
  v1::WorkerMessage message;
  message.mutable_ready()->set_precision("f32");
  client->Send(message);
  EXPECT_EQ(frontend.Next().hello().group(), "0");
  EXPECT_EQ(frontend.Next().ready().precision(), "f32");
  frontend.Break();
  ended.WaitForNotification();
  client->Send(message);
  client->End();
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace kinora
