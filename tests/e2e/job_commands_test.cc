// The commands of `kinora` that list, show and end jobs, against a real frontend with a scripted worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class JobCommands : public ScriptedServer {
 protected:
  JobCommands() { server_.Start(); }

  // Creates a job that waits after its first step.
  std::string CreateRunning() {
    std::string id = server_.Create(gate_.Prompt());
    Process watch(server_.Client({"watch", id}));
    EXPECT_NE(watch.AwaitLine("denoise 1/3"), "") << watch.Err();
    return id;
  }
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
  EXPECT_EQ(server_.Run({"cancel", waiting}).out, waiting + ": cancelled\n");  // it had not started
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
  EXPECT_EQ(server_.Run({"cancel", id}).out, id + ": had already ended, COMPLETED\n");
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
  EXPECT_EQ(again.err, "no queued or running jobs\n");
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

TEST_F(JobCommands, DeleteWithCancelDoesNotWaitAndTheJobGoesWhenItHasEnded) {
  const std::string id = CreateRunning(), waiting = server_.Create("x");
  EXPECT_THAT(server_.Run({"delete", id}).err, HasSubstr("--cancel"));
  EXPECT_EQ(server_.Run({"delete", id, "--force", "--cancel"}).status, kRefused);
  EXPECT_EQ(server_.Run({"delete", waiting, "--cancel"}).out, "deleting " + waiting + "\n");
  EXPECT_EQ(server_.Run({"get", waiting}).status, kRefused);  // it was not running
  const Result deleted = server_.Run({"delete", id, "--cancel"});
  EXPECT_EQ(deleted.status, 0) << deleted.err;
  EXPECT_EQ(deleted.out, "deleting " + id + "\n");
  while (server_.Run({"get", id}).status == 0) {
  }
  EXPECT_EQ(server_.Run({"list"}).out, "");
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

TEST_F(JobCommands, ListShowsPromptsAndHowFarEachJobIs) {
  EXPECT_EQ(server_.Run({"list"}).err, "no jobs\n");
  const std::string running = CreateRunning(), next = server_.Create("a kite"), last = server_.Create("a \033[31mfox");
  const std::string out = server_.Run({"list"}).out;
  EXPECT_THAT(out, MatchesRegex("ID +STATE +AGE +SECONDS +SIZE +SEED +PROMPT\n(.*\n){3}"));
  EXPECT_THAT(out, HasSubstr(absl::StrCat("\n", last.substr(0, 8), "  QUEUED #2 ")));
  EXPECT_THAT(out, HasSubstr(absl::StrCat("\n", next.substr(0, 8), "  QUEUED #1 ")));
  EXPECT_THAT(out, HasSubstr(absl::StrCat("\n", running.substr(0, 8), "  RUNNING 30% ")));
  EXPECT_THAT(out, HasSubstr(" 7     a kite\n"));  // shown after its seed
  EXPECT_THAT(out, HasSubstr("a  [31mfox\n"));
}

TEST_F(JobCommands, ListIsNarrowedByStateLabelAndNumber) {
  const std::string running = CreateRunning(), a = server_.Create("x", {"--label=take=1", "--label=team=film"}),
                    b = server_.Create("y", {"--label=take=2", "--label=team=film"});
  EXPECT_EQ(server_.Json({"list", "--state=running"})["id"], running);
  EXPECT_EQ(server_.Json({"list", "--label=take=1"})["id"], a);
  EXPECT_EQ(server_.Json({"list", "--label=team=film", "--label=take=2"})["id"], b);
  const Result one = server_.Run({"list", "--limit=1", "--json"});
  EXPECT_EQ(nlohmann::json::parse(one.out)["id"], b);  // the newest
  EXPECT_EQ(one.err, "there are more jobs; use --limit N or --all\n");
  EXPECT_EQ(server_.Run({"list", "--state=sleeping"}).status, kRefused);
  EXPECT_EQ(server_.Run({"list", "--label=take"}).status, kRefused);
}

TEST_F(JobCommands, ListSearchesPromptsAndBeginsWithTheOldest) {
  const std::string running = CreateRunning(), fox = server_.Create("a scarlet fox"),
                    kite = server_.Create("a scarlet kite");
  EXPECT_EQ(server_.Json({"list", "--text=FOX scarlet"})["id"], fox);
  EXPECT_EQ(server_.Json({"list", "--text=scarlet", "--oldest-first", "--limit=1"})["id"], fox);
  EXPECT_EQ(server_.Json({"list", "--oldest-first", "--limit=1"})["id"], running);
  EXPECT_EQ(server_.Json({"list", "--text=scarlet", "--limit=1"})["id"], kite);
  EXPECT_EQ(server_.Run({"list", "--text=walrus"}).err, "no jobs\n");
  const Result refused = server_.Run({"list", "--text=" + std::string(2000, 'x')});
  EXPECT_EQ(refused.status, kRefused);
  EXPECT_THAT(refused.err, HasSubstr("text: 2000 bytes; at most 1000"));
}

TEST_F(JobCommands, ABeginningOfAnIdIsEnoughEverywhere) {
  const std::string id = CreateRunning(), brief = id.substr(0, 8);
  EXPECT_EQ(server_.Json({"get", brief})["id"], id);
  Process watch(server_.Client({"watch", brief}));
  EXPECT_NE(watch.AwaitLine("denoise 1/3"), "");
  gate_.Open();
  EXPECT_EQ(watch.Wait(), 0);
  const std::string path = directory_.File("x.mp4");
  EXPECT_EQ(server_.Run({"download", brief, "-o", path}).status, 0);
  EXPECT_EQ(server_.Run({"cancel", brief}).out, id + ": had already ended, COMPLETED\n");
  EXPECT_EQ(server_.Run({"delete", brief}).out, "deleted " + id + "\n");
  const Result gone = server_.Run({"get", brief});
  EXPECT_EQ(gone.status, kRefused);
  EXPECT_THAT(gone.err, HasSubstr(absl::StrCat("no job has an ID that begins with \"", brief, "\"")));
}

TEST_F(JobCommands, ABeginningThatSeveralIdsShareIsRefusedWithThem) {
  std::map<char, std::string> by_first;  // two of 17 ids share their first character
  std::string id, other;
  while (other.empty()) {
    id = server_.Create("x");
    const auto [it, fresh] = by_first.emplace(id[0], id);
    if (!fresh) other = it->second;
  }
  const Result refused = server_.Run({"delete", id.substr(0, 1), "--force"});
  EXPECT_EQ(refused.status, kRefused);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(id), HasSubstr(other)));
  EXPECT_EQ(server_.Json({"get", id})["id"], id);  // nothing is deleted
}

TEST_F(JobCommands, WhatDoesNotFitIsRefusedByCreateAsEstimateSays) {
  const Result estimate = server_.Run({"estimate", "x", "--frames=97"});
  EXPECT_THAT(estimate.out, HasSubstr("fits       no\n"));
  EXPECT_THAT(estimate.out, HasSubstr("nearest    64x64, 49 frames\n"));
  for (const char* command : {"create", "generate"}) {
    const Result refused = server_.Run({command, "x", "--frames=97"});
    EXPECT_EQ(refused.status, kRefused);
    EXPECT_THAT(refused.err, HasSubstr("generation.num_frames: 64x64 with 97 frames does not fit: it needs 2.00 GiB"));
    EXPECT_THAT(refused.err, HasSubstr("nearest at this size: 49"));
  }
  EXPECT_EQ(server_.Run({"list"}).out, "");
}

TEST_F(JobCommands, ListAndGetSayWhatAJobIsEstimatedToTake) {
  const std::string running = CreateRunning(), waiting = server_.Create("x");
  EXPECT_THAT(server_.Run({"list", "--state=queued"}).out, HasSubstr("  ~1.5 s "));
  EXPECT_THAT(server_.Run({"get", waiting}).out, HasSubstr("estimated  1.5 s\n"));
  EXPECT_EQ(server_.Json({"get", running})["estimated_seconds"], 1.5);
}

TEST_F(JobCommands, GetShowsPromptStepsAndWhatEachStageTook) {
  const std::string id = server_.Create("a red fox\nin snow", {"--label=take=1"});
  RunToEnd(server_.Client({"watch", id}));
  const std::string out = server_.Run({"get", id}).out;
  for (const char* line : {"prompt     a red fox\n           in snow\n", "state      COMPLETED\n", "seed       7\n",
                           "label      take=1\n", " ago)\n", "stages     denoise ", ", finalize "}) {
    EXPECT_THAT(out, HasSubstr(line));
  }
}

}  // namespace
}  // namespace kinora
