// The commands of `kinora` that list, show and end jobs, against a real frontend with a scripted worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/e2e/gate.h"
#include "tests/e2e/server.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr int kRefused = 2, kCancelled = 4, kUnreachable = 5;  // as `kinora --help` says

class JobCommands : public testing::Test {
 protected:
  JobCommands() : server_(directory_, {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {"--worker-model=scripted"}}) {
    server_.Start();
  }

  // A job that has made its first step and waits there.
  std::string CreateRunning() {
    const std::string id = server_.Create(gate_.Prompt());
    Process watch(server_.Client({"watch", id}));
    EXPECT_NE(watch.AwaitLine("denoise 1/3"), "") << watch.Err();
    return id;
  }

  TemporaryDirectory directory_;
  Gate gate_{directory_};
  Server server_;
};

TEST_F(JobCommands, CreatePrintsTheIdAlone) {
  const Result created = server_.Run({"create", "x"});
  EXPECT_EQ(created.status, 0);
  EXPECT_THAT(created.out, MatchesRegex("[0-9a-f]{32}\n"));
  const std::string id(absl::StripSuffix(created.out, "\n"));
  EXPECT_EQ(server_.Json({"get", id})["id"], id);
}

TEST_F(JobCommands, CancelSaysThatARunningJobIsBeingCancelled) {
  const std::string id = CreateRunning();
  EXPECT_EQ(server_.Run({"cancel", id}).out, id + ": cancelling\n");
  EXPECT_EQ(RunToEnd(server_.Client({"watch", id})).status, kCancelled);
  EXPECT_EQ(server_.Run({"cancel", id}).out, id + ": cancelled at denoise 1/3\n");
}

TEST_F(JobCommands, CancelWaitsForTheEndWhereAsked) {
  const std::string running = CreateRunning(), waiting = server_.Create("x");
  EXPECT_EQ(server_.Run({"cancel", waiting}).out, waiting + ": cancelled\n");  // it had not begun
  const Result result = server_.Run({"cancel", running, "--wait"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, running + ": cancelled at denoise 1/3\n");
  const auto video = server_.Json({"get", running});
  EXPECT_EQ(video["state"], "CANCELLED");
  EXPECT_EQ(video["progress"]["step"], 1);
  EXPECT_THAT(server_.Run({"get", running}).out, HasSubstr("denoise 1/3"));
}

TEST_F(JobCommands, ACancelOfAJobThatHadEndedSaysHow) {
  const std::string id = server_.Create("x");
  RunToEnd(server_.Client({"watch", id}));
  EXPECT_EQ(server_.Run({"cancel", id}).out, id + ": had ended already, COMPLETED\n");
}

TEST_F(JobCommands, CancelAllEndsWhatWaitsBeforeWhatRuns) {
  const std::string running = CreateRunning(), first = server_.Create("x"), second = server_.Create("x");
  const Result result = server_.Run({"cancel", "--all", "--wait"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            absl::StrCat(second, ": cancelled\n", first, ": cancelled\n", running, ": cancelled at denoise 1/3\n"));
  EXPECT_EQ(server_.Json({"get", first})["attempt"], nullptr);  // it never ran
  const Result again = server_.Run({"cancel", "--all"});
  EXPECT_EQ(again.status, 0);
  EXPECT_EQ(again.err, "no job waits or runs\n");
}

TEST_F(JobCommands, CancelNeedsEitherAnIdOrAll) {
  const std::string id = server_.Create("x");
  EXPECT_EQ(server_.Run({"cancel"}).status, kRefused);
  EXPECT_EQ(server_.Run({"cancel", id, "--all"}).status, kRefused);
}

TEST_F(JobCommands, DeleteCancelsFirstWhereForced) {
  const std::string id = CreateRunning();
  const Result refused = server_.Run({"delete", id});
  EXPECT_EQ(refused.status, kRefused);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  const Result deleted = server_.Run({"delete", id, "--force"});
  EXPECT_EQ(deleted.status, 0) << deleted.err;
  EXPECT_EQ(server_.Run({"get", id}).status, kRefused);
}

TEST_F(JobCommands, CtrlCOfADetachedJobLeavesItAndSaysNothingOfConnections) {
  Process client(server_.Generate(gate_.Prompt(), directory_.File("x.mp4"), {"--detach"}));
  ASSERT_NE(client.AwaitLine("denoise 1/3"), "");
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kUnreachable);
  client.AwaitEndOfOutput();
  EXPECT_THAT(client.Err(), HasSubstr("left job "));
  EXPECT_THAT(client.Err(), Not(HasSubstr("lost")));
  const auto job = server_.Json({"list"});
  EXPECT_EQ(job["state"], "RUNNING");
}

}  // namespace
}  // namespace kinora
