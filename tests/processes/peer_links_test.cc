#include "engine/processes/peer_links.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

// A rendezvous of ranks that are threads of this test.
class Board {
 public:
  class Side : public Rendezvous {
   public:
    Side(Board& board, int rank) : board_(board), rank_(rank) {}
    void Publish(const std::string& key, const std::string& value) override {
      const std::lock_guard lock(board_.mu_);
      board_.published_[{rank_, key}] = value;
      board_.changed_.notify_all();
    }
    absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) override {
      std::unique_lock lock(board_.mu_);
      const std::pair<int, std::string> wanted(rank, key);
      if (!board_.changed_.wait_for(lock, absl::ToChronoMilliseconds(patience),
                                    [&] { return board_.published_.contains(wanted); })) {
        return absl::DeadlineExceededError("not published");
      }
      return board_.published_[wanted];
    }

   private:
    Board& board_;
    const int rank_;
  };

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<std::pair<int, std::string>, std::string> published_;
};

// Connects an outsider to the port that `rank` has published.
FileDescriptor Dial(Board& board, int rank) {
  const auto address = Board::Side(board, 99).Await(rank, "address", absl::Seconds(20));
  const std::vector<std::string> parts = absl::StrSplit(*address, ' ');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(parts[1], &port));
  to.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, parts[0].c_str(), &to.sin_addr), 1);
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

struct Pair {  // two ranks that connect to each other; rank 1 dials
  explicit Pair(PeerOptions zero, PeerOptions one) {
    links[0] = *PeerLinks::Open(0, std::move(zero), sides[0]);
    links[1] = *PeerLinks::Open(1, std::move(one), sides[1]);
  }
  Board board;
  Board::Side sides[2] = {{board, 0}, {board, 1}};
  std::unique_ptr<PeerLinks> links[2];
  const std::vector<int> members = {0, 1};
};

TEST(PeerLinks, ConnectsThoseWhoKnowTheKeyAndKeepsNamesApart) {
  const std::string key = DrawGroupKey();
  Pair pair({.key = key}, {.key = key});
  std::thread one([&] {
    for (const char* name : {"a", "b"}) {  // rank 1 may connect both before rank 0 accepts the first
      auto links = pair.links[1]->Connect(name, pair.members);
      ASSERT_THAT(links, IsOk());
      EXPECT_FALSE((*links)[1].ok());
      EXPECT_EQ(write((*links)[0].get(), name, 1), 1);
    }
  });
  for (const char* name : {"a", "b"}) {
    auto links = pair.links[0]->Connect(name, pair.members);
    ASSERT_THAT(links, IsOk());
    char heard = 0;
    while (recv((*links)[1].get(), &heard, 1, 0) < 0 && errno == EAGAIN) std::this_thread::yield();
    EXPECT_EQ(heard, name[0]);
  }
  one.join();
}

TEST(PeerLinks, WhoDialsWithoutTheKeyIsTurnedAwayAndWhoListensWaitsOnForTheRightOne) {
  const std::string key = DrawGroupKey();
  Pair pair({.key = key}, {.key = DrawGroupKey()});
  std::thread one([&] {
    EXPECT_THAT(pair.links[1]->Connect("a", pair.members),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("does not know the key")));
    const auto right = PeerLinks::Open(1, {.key = key}, pair.sides[1]);
    EXPECT_THAT((*right)->Connect("a", pair.members), IsOk());
  });
  EXPECT_THAT(pair.links[0]->Connect("a", pair.members), IsOk());
  one.join();
}

TEST(PeerLinks, WhoListensWaitsForAsLongAsItsPatience) {
  Pair pair({.key = DrawGroupKey(), .patience = absl::Milliseconds(1)}, {.key = DrawGroupKey()});
  EXPECT_THAT(pair.links[0]->Connect("a", pair.members),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1 has not come to \"a\"")));
}

// A hundred outsiders, more than may stay connected: silent ones, one that sends noise, and one that replays another's
// proof.
TEST(PeerLinks, StrangersOnThePortHarmNobody) {
  const std::string key = DrawGroupKey();
  Pair pair({.key = key}, {.key = key});
  std::vector<FileDescriptor> strangers;
  strangers.reserve(100);
  for (int i = 0; i < 100; ++i) strangers.push_back(Dial(pair.board, 0));
  const std::string noise(100000, 'x');
  EXPECT_GT(send(strangers[50].get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 0);
  std::thread one([&] { EXPECT_THAT(pair.links[1]->Connect("a", pair.members), IsOk()); });
  EXPECT_THAT(pair.links[0]->Connect("a", pair.members), IsOk());
  one.join();
}

// A proof that rank 1 sent to a listener without the key is useless at one with the key, because the challenge differs.
TEST(PeerLinks, AProofIsGoodForOneConnection) {
  const std::string key = DrawGroupKey();
  Board board;
  Board::Side zero(board, 0), one(board, 1);
  const auto links = PeerLinks::Open(0, {.key = key}, zero);
  ASSERT_THAT(links, IsOk());
  const std::string real = *one.Await(0, "address", absl::Seconds(20));
  FileDescriptor man_in_the_middle(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof own;
  ASSERT_EQ(bind(man_in_the_middle.get(), reinterpret_cast<sockaddr*>(&own), bytes), 0);
  ASSERT_EQ(listen(man_in_the_middle.get(), 1), 0);
  getsockname(man_in_the_middle.get(), reinterpret_cast<sockaddr*>(&own), &bytes);
  zero.Publish("address", "127.0.0.1 " + std::to_string(ntohs(own.sin_port)));
  const auto victim = PeerLinks::Open(1, {.key = key}, one);
  std::thread dials([&] { EXPECT_FALSE((*victim)->Connect("a", std::vector<int>{0, 1}).ok()); });
  FileDescriptor caught(accept(man_in_the_middle.get(), nullptr, nullptr));
  const std::string number(32, 'n');
  ASSERT_EQ(send(caught.get(), number.data(), number.size(), 0), 32);
  std::string proof(104, '\0');
  ASSERT_EQ(recv(caught.get(), proof.data(), proof.size(), MSG_WAITALL), 104);
  zero.Publish("address", real);
  const FileDescriptor again = Dial(board, 0);
  ASSERT_EQ(send(again.get(), proof.data(), proof.size(), 0), 104);
  std::thread listens([&] {
    EXPECT_THAT((*links)->Connect("a", std::vector<int>{0, 1}), StatusIs(absl::StatusCode::kAborted));
  });
  std::string number_then_end(33, '\0');
  EXPECT_EQ(recv(again.get(), number_then_end.data(), 33, MSG_WAITALL), 32) << "it is turned away";
  (*links)->Abort();
  (*victim)->Abort();
  listens.join();
  dials.join();
}

TEST(PeerLinks, AbortEndsTheWait) {
  const std::string key = DrawGroupKey();
  Pair pair({.key = key}, {.key = key});
  std::thread abort([&] { pair.links[0]->Abort(); });
  EXPECT_THAT(pair.links[0]->Connect("a", pair.members), StatusIs(absl::StatusCode::kAborted, HasSubstr("aborted")));
  abort.join();
}

TEST(PeerLinks, AnInterfaceIsAnAddressOrAName) {
  Board board;
  Board::Side side(board, 0);
  for (const char* interface : {"127.0.0.1", "lo"}) {
    EXPECT_THAT(PeerLinks::Open(0, {.key = DrawGroupKey(), .interface = interface}, side), IsOk());
    EXPECT_THAT(*side.Await(0, "address", absl::Seconds(20)), HasSubstr("127.0.0.1 "));
  }
  for (const char* mistaken : {"10.0.0", "300.1.1.1", "fe80::zz", "an interface", "a-name-that-is-too-long"}) {
    EXPECT_THAT(PeerLinks::Open(0, {.key = DrawGroupKey(), .interface = mistaken}, side),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lo (127.0.0.1)")));
  }
  // Unavailable, since such an interface may still appear and the rank can be restarted.
  EXPECT_THAT(PeerLinks::Open(0, {.key = DrawGroupKey(), .interface = "eth77"}, side),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lo (127.0.0.1)")));
  EXPECT_THAT(PeerLinks::Open(0, {.key = DrawGroupKey(), .interface = "203.0.113.7"}, side),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("203.0.113.7")));
}

}  // namespace
}  // namespace kinora
