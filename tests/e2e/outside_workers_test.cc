// Groups whose ranks are not started by the frontend: they use the join port with a token, and a launcher restarts each
// rank on request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/launcher.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ContainsRegex;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr char kToken[] = "a token of the test's group";

class OutsideWorkers : public testing::Test {
 protected:
  OutsideWorkers() {
    std::ofstream(directory_.File("tokens")) << kToken << "\n";
    KINORA_CHECK_EQ(chmod(directory_.File("tokens").c_str(), 0600), 0);
    std::filesystem::create_directory(directory_.File("scratch"));
  }
  ~OutsideWorkers() override {
    for (const auto& rank : ranks_) rank->Signal(SIGTERM);  // all at once
  }

  // Starts a frontend that awaits `groups`, each of two processes.
  void Start(const std::vector<std::string>& groups, const std::vector<std::string>& flags = {}) {
    std::ofstream config(directory_.File("kinora.textproto"));
    for (const std::string& group : groups) config << "groups { id: '" << group << "' processes: 2 outside: true }\n";
    config.close();
    std::vector<std::string> all = {absl::StrCat("--config=", directory_.File("kinora.textproto")),
                                    absl::StrCat("--join-address=127.0.0.1:", join_port_.empty() ? "0" : join_port_),
                                    absl::StrCat("--join-token-file=", directory_.File("tokens"))};
    all.insert(all.end(), flags.begin(), flags.end());
    server_.Start(/*ready=*/false, all);
    join_port_ = LogField(server_.frontend().AwaitLine("serving"), "join_port");
  }
  std::vector<std::string> RankCommand(const std::string& group, int rank) const {
    std::vector<std::string> command = {
        KINORA_WORKER_BINARY, absl::StrCat("--group=", group), absl::StrCat("--frontend=127.0.0.1:", join_port_),
        "--http-address=", absl::StrCat("--scratch-directory=", directory_.File("scratch"))};
    for (const std::string& flag : TokenRankFlags(rank)) command.push_back(flag);
    return command;
  }
  void LaunchRank(const std::string& group, int rank) {
    std::vector<std::string> command = RankCommand(group, rank);
    command.push_back(absl::StrCat("--token-file=", directory_.File("tokens")));
    ranks_.push_back(std::make_unique<Launcher>(command));
  }
  void LaunchAll(const std::string& group) {
    for (int rank = 0; rank < 2; ++rank) LaunchRank(group, rank);
  }
  std::vector<std::string> Generate(const std::string& file, int steps) const {
    return server_.Generate(kPrompt, directory_.File(file), ClipFlags(steps));
  }
  std::string Made(const std::string& file) const { return ReadFile(directory_.File(file)); }

  TemporaryDirectory directory_;
  Server server_{directory_, {.binary = KINORA_WORKER_BINARY, .flags = {}}};
  std::string join_port_;
  std::vector<std::unique_ptr<Launcher>> ranks_;
};

TEST_F(OutsideWorkers, MakeTheFileOfOneRankAndLeaveForGoodWhenTheyAreTold) {
  Start({"pair"});
  LaunchAll("pair");
  server_.AwaitReadyGroup();
  ASSERT_EQ(RunToEnd(Generate("served.mp4", 4)).status, 0);
  EXPECT_EQ(Made("served.mp4"), Rendered(directory_, 4));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("state/artifacts/.tmp")));
  ranks_[1]->Stop();
  EXPECT_THAT(ranks_[1]->statuses(), testing::ElementsAre(0)) << ranks_[1]->Log();
  EXPECT_THAT(server_.MetricsPage(), HasSubstr("kinora_group_restarts_total{reason=\"left\"} 1"));
  ranks_[0]->Stop();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("scratch")));
}

TEST_F(OutsideWorkers, SendTheThumbnailAndTheTraceBehindTheClip) {
  Start({"pair"});
  LaunchAll("pair");
  server_.AwaitReadyGroup();
  std::vector<std::string> command = Generate("served.mp4", 2);
  command.insert(command.end(), {"--thumbnail", "--trace"});
  const Result served = RunToEnd(command);
  ASSERT_EQ(served.status, 0) << served.err;
  EXPECT_EQ(Made("served.mp4"), Rendered(directory_, 2));
  EXPECT_EQ(Made("served.thumbnail.jpg").substr(0, 3), "\xff\xd8\xff");
  EXPECT_EQ(Made("served.trace.json").substr(0, 1), "{");
}

// The ranks have no access to the frontend's directory.
TEST_F(OutsideWorkers, AreSentWhatARequestBringsAlong) {
  const std::string image = KINORA_SOURCE_DIR "/tests/server/decode/data/camera.png";
  Start({"pair"});
  LaunchAll("pair");
  server_.AwaitReadyGroup();
  std::vector<std::string> command = Generate("shown.mp4", 2);
  command.insert(command.end(), {"--image", image});
  const Result shown = RunToEnd(command);
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(Made("shown.mp4"), Rendered(directory_, 2, {"--image", image}));
}

TEST_F(OutsideWorkers, WhoShowsNoTokenIsTurnedAwayAndCounted) {
  Start({"pair"});
  const Result without = RunToEnd(RankCommand("pair", 0));
  EXPECT_EQ(without.status, 1) << "its launcher has nothing to try again";
  EXPECT_THAT(without.err, HasSubstr("authorization: send"));
  EXPECT_THAT(server_.frontend().AwaitLine("join_unauthenticated"), HasSubstr("peer=ipv4:127.0.0.1"));
  std::ofstream(directory_.File("others")) << "a token of somebody else\n";
  ASSERT_EQ(chmod(directory_.File("others").c_str(), 0600), 0);
  std::vector<std::string> wrong = RankCommand("pair", 0);
  wrong.push_back(absl::StrCat("--token-file=", directory_.File("others")));
  EXPECT_THAT(RunToEnd(wrong).err, HasSubstr("the token is not valid"));
  EXPECT_THAT(server_.MetricsPage(), HasSubstr("kinora_joins_unauthenticated_total 2"));
  LaunchAll("pair");
  server_.AwaitReadyGroup();
}

TEST_F(OutsideWorkers, ARankThatIsKilledEndsTheOthersAndAllAreStartedAgain) {
  Start({"pair"});
  LaunchAll("pair");
  server_.AwaitReadyGroup();
  for (const int rank : {1, 0}) {
    Process client(Generate("served.mp4", kManySteps));
    ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
    ranks_[rank]->Signal(SIGKILL);
    EXPECT_EQ(client.Wait(), 0) << client.Err();
    EXPECT_THAT(client.Err(), HasSubstr("QUEUED again"));
    EXPECT_EQ(Made("served.mp4"), Rendered(directory_, kManySteps)) << "rank " << rank;
    EXPECT_THAT(ranks_[rank]->statuses(), Contains(128 + SIGKILL));
    EXPECT_THAT(ranks_[1 - rank]->statuses(), Contains(Launcher::kStartAgain)) << ranks_[1 - rank]->Log();
  }
}

TEST_F(OutsideWorkers, ThoseThatAreMissingAreNamed) {
  Start({"pair"}, {"--group-join-timeout-seconds=1"});
  EXPECT_THAT(server_.frontend().AwaitLine("group_incomplete"), HasSubstr("waiting for all its ranks, 2"));
  LaunchRank("pair", 0);
  EXPECT_THAT(server_.frontend().AwaitLine("group_lost"), HasSubstr("waiting for rank 1 of 2, 1"));
  const std::string reason = server_.Json({"admin", "list"})["reason"];  // the rank may be back by now
  EXPECT_THAT(reason, HasSubstr("waiting for rank 1 of 2"));
  EXPECT_THAT(server_.ReadyPage(),
              AllOf(HasSubstr("503"), HasSubstr("group pair is "), HasSubstr("waiting for rank 1 of 2")));
  LaunchRank("pair", 1);
  server_.AwaitReadyGroup();
  EXPECT_THAT(ranks_[0]->statuses(), Each(Launcher::kStartAgain));
}

TEST_F(OutsideWorkers, OneThatCannotLoadSaysWhyAndIsNotStartedAgain) {
  Start({"pair"});
  LaunchRank("pair", 0);
  std::vector<std::string> wrong = RankCommand("pair", 1);
  wrong.push_back(absl::StrCat("--token-file=", directory_.File("tokens")));
  wrong.push_back("--model=/nowhere/model.safetensors");
  EXPECT_EQ(RunToEnd(wrong).status, 2);
  EXPECT_THAT(server_.frontend().AwaitLine("group_lost"),
              AllOf(HasSubstr("rank 1 failed: "), HasSubstr("/nowhere/model.safetensors")));
}

TEST_F(OutsideWorkers, LeaveWhenTheyAreToldThoughNoFrontendIsThere) {
  join_port_ = "1";  // nothing listens there
  std::vector<std::string> command = RankCommand("pair", 0);
  command.push_back("--http-address=127.0.0.1:0");
  for (const int signal : {SIGTERM, SIGHUP}) {
    Process rank(command);
    ASSERT_NE(rank.AwaitLine("event=pages"), "") << rank.Err();
    rank.Signal(signal);
    EXPECT_EQ(rank.Wait(), 0) << signal;
  }
}

TEST_F(OutsideWorkers, FindTheFrontendThatComesAfterOneThatWasKilledOrStopped) {
  Start({"pair"});
  LaunchAll("pair");
  server_.AwaitReadyGroup();
  Process client(Generate("served.mp4", kManySteps));
  ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
  server_.frontend().Signal(SIGKILL);
  server_.frontend().Wait();
  Start({"pair"});
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  EXPECT_EQ(Made("served.mp4"), Rendered(directory_, kManySteps));
  server_.frontend().Signal(SIGTERM);  // as for an upgrade
  EXPECT_EQ(server_.frontend().Wait(), 0);
  Start({"pair"});
  server_.AwaitReadyGroup();
  for (const auto& rank : ranks_) {
    EXPECT_THAT(rank->statuses(), Each(Launcher::kStartAgain));
    const std::string log = rank->Log();
    EXPECT_THAT(log, ContainsRegex("level=info [^\n]*event=worker_leaves why=\"the frontend is stopping\""));
    EXPECT_THAT(log, Not(ContainsRegex("level=error [^\n]*event=worker_leaves")));
  }
}

TEST_F(OutsideWorkers, TwoGroupsWorkAtOnce) {
  Start({"one", "two"});
  LaunchAll("one");
  LaunchAll("two");
  server_.AwaitReadyGroup();
  Process first(Generate("first.mp4", kManySteps)), second(Generate("second.mp4", kManySteps));
  EXPECT_EQ(first.Wait(), 0) << first.Err();
  EXPECT_EQ(second.Wait(), 0) << second.Err();
  const std::string expected = Rendered(directory_, kManySteps);
  EXPECT_EQ(Made("first.mp4"), expected);
  EXPECT_EQ(Made("second.mp4"), expected);
  const std::string log = server_.frontend().Err();
  EXPECT_THAT(log, AllOf(HasSubstr("group=one"), HasSubstr("group=two"), HasSubstr("attempt=1 group=one"),
                         HasSubstr("attempt=1 group=two")));
}

}  // namespace
}  // namespace kinora
