#include "engine/processes/socket_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "engine/processes/forked_ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

TEST(SocketRendezvous, WhatOneRankPublishesReachesTheOthersWhateverTheOrderOfTheirWaits) {
  const auto ranks = *ForkedRanks::Start(3, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    rendezvous.Publish("first", "a" + std::to_string(rank));
    rendezvous.Publish("second", std::string("b\0c", 3) + std::to_string(rank));
    std::string heard;
    for (const int other : {2, 1, 0}) {
      if (other == rank) continue;
      for (const char* key : {"second", "first"}) {
        absl::StatusOr<std::string> value = rendezvous.Await(other, key, absl::Seconds(20));
        if (!value.ok()) return value;
        heard += *value;
      }
    }
    return heard;
  });
  EXPECT_THAT(ranks->AwaitResult(0), IsOkAndHolds(std::string("b\0c2a2b\0c1a1", 12)));
  EXPECT_THAT(ranks->AwaitResult(1), IsOkAndHolds(std::string("b\0c2a2b\0c0a0", 12)));
  EXPECT_THAT(ranks->AwaitResult(2), IsOkAndHolds(std::string("b\0c1a1b\0c0a0", 12)));
}

TEST(SocketRendezvous, NamesWhoIsMissing) {
  const auto ranks = *ForkedRanks::Start(2, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    if (rank == 1) return "";
    return rendezvous.Await(1, "address", absl::Milliseconds(50));
  });
  EXPECT_THAT(ranks->AwaitResult(0),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1 has not published \"address\"")));
}

TEST(SocketRendezvous, WhoeverReadsReadsForAllThatWait) {
  const auto ranks = *ForkedRanks::Start(2, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    if (rank == 1) {
      for (int i = 0; i < 100; ++i) {
        rendezvous.Publish("a" + std::to_string(i), "");
        rendezvous.Publish("b" + std::to_string(i), "");
      }
      return "";
    }
    std::atomic<bool> over = false;
    const auto hear = [&](const char* name) {
      for (int i = 0; i < 100; ++i) {
        const absl::Status heard = rendezvous.Await(1, name + std::to_string(i), absl::Seconds(20)).status();
        if (!heard.ok()) return heard;
      }
      return absl::OkStatus();
    };
    absl::Status others;
    std::thread other([&] { others = hear("b"); });
    std::thread looks([&] {  // like a watch thread; it is never served
      while (!over) EXPECT_FALSE(rendezvous.Await(1, "abort", absl::ZeroDuration()).ok());
    });
    const absl::Status own = hear("a");
    other.join();
    over = true;
    looks.join();
    if (!own.ok()) return own;
    if (!others.ok()) return others;
    return "all";
  });
  EXPECT_THAT(ranks->AwaitResult(0), IsOkAndHolds("all"));
}

// A query with no timeout returns the values that have arrived.
TEST(SocketRendezvous, ALookSeesWhatHasCome) {
  auto hub = RendezvousHub::Open(2);
  ASSERT_THAT(hub, IsOk());
  SocketRendezvous zero{FileDescriptor(dup((*hub)->RankEnd(0)))}, one{FileDescriptor(dup((*hub)->RankEnd(1)))};
  (*hub)->Start();
  EXPECT_THAT(zero.Await(1, "abort", absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
  one.Publish("abort", "why");
  absl::StatusOr<std::string> heard;
  do {
    heard = zero.Await(1, "abort", absl::ZeroDuration());
  } while (absl::IsDeadlineExceeded(heard.status()));
  EXPECT_THAT(heard, IsOkAndHolds("why"));
}

TEST(SocketRendezvous, AStarterThatHasGoneEndsTheWait) {
  auto hub = RendezvousHub::Open(1);
  ASSERT_THAT(hub, IsOk());
  SocketRendezvous rendezvous{FileDescriptor(dup((*hub)->RankEnd(0)))};
  (*hub)->Start();
  hub->reset();
  EXPECT_THAT(rendezvous.Await(0, "x", absl::Seconds(20)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has gone")));
}

}  // namespace
}  // namespace kinora
