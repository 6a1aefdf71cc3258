#include "server/worker/join_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

v1::Rendezvous From(int rank, const std::string& key, const std::string& value) {
  v1::Rendezvous message;
  message.set_rank(rank);
  message.set_key(key);
  message.set_value(value);
  return message;
}

TEST(JoinRendezvous, PublishesOverItsStream) {
  std::vector<v1::WorkerMessage> sent;
  JoinRendezvous rendezvous([&](const v1::WorkerMessage& message) { sent.push_back(message); });
  rendezvous.Publish("address", "host:1");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].rendezvous().key(), "address");
  EXPECT_EQ(sent[0].rendezvous().value(), "host:1");
}

TEST(JoinRendezvous, WaitsForTheRankAndTheKeyAskedFor) {
  JoinRendezvous rendezvous([](const v1::WorkerMessage&) {});
  rendezvous.Receive(From(2, "address", "host:2"));
  rendezvous.Receive(From(1, "other", "x"));
  EXPECT_THAT(rendezvous.Await(1, "address", absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1 has not published \"address\"")));
  absl::StatusOr<std::string> found;
  std::thread waiter([&] { found = rendezvous.Await(1, "address", absl::Seconds(30)); });
  rendezvous.Receive(From(1, "address", "host:1"));
  waiter.join();
  EXPECT_THAT(found, IsOkAndHolds("host:1"));
  EXPECT_THAT(rendezvous.Await(2, "address", absl::ZeroDuration()), IsOkAndHolds("host:2"));
}

TEST(JoinRendezvous, AnAbortEndsWaitsNowAndLaterAndTheFirstCounts) {
  JoinRendezvous rendezvous([](const v1::WorkerMessage&) {});
  rendezvous.Receive(From(1, "address", "host:1"));
  absl::Status ended;
  std::thread waiter([&] { ended = rendezvous.Await(2, "address", absl::Seconds(30)).status(); });
  rendezvous.Abort(absl::AbortedError("rank 2 is lost"));
  rendezvous.Abort(absl::UnavailableError("the frontend has gone"));
  waiter.join();
  EXPECT_THAT(ended, StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 2 is lost")));
  EXPECT_THAT(rendezvous.Await(1, "address", absl::Seconds(30)),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("lost")));
}

}  // namespace
}  // namespace kinora
