// The served path from the client's command line to the file: frontend, supervised worker, job store, artifacts. The
// worker's model is scripted, so that it can die and hang at a step; tiny_model_test.cc uses a real model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/scripted_server.h"
#include "tests/testing/full_disk.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::Not;

// Returns the value of a series on a page, or 0 if it is missing.
int Value(const std::string& page, const std::string& series) {
  const size_t at = page.find(absl::StrCat("\n", series, " "));
  return at == std::string::npos ? 0 : std::atoi(page.c_str() + at + series.size() + 2);
}

class ServedPath : public ScriptedServer {
 protected:
  // Waits for the job's end and returns its last state.
  nlohmann::json AwaitEnd(const std::string& id) {
    RunToEnd(server_.Client({"watch", id}));
    return server_.Json({"get", id});
  }
};

TEST_F(ServedPath, GenerateSavesTheFileAndShowsTheSteps) {
  server_.Start();
  const std::string path = directory_.File("clip.mp4");
  Process client(server_.Generate(gate_.Prompt(), path));
  EXPECT_NE(client.AwaitLine("denoise 1/3"), "") << client.Err();
  gate_.Open();
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  client.AwaitEndOfOutput();
  EXPECT_THAT(client.Out(), HasSubstr(path + "  "));
  EXPECT_EQ(ReadFile(path).substr(4, 4), "ftyp");
}

TEST_F(ServedPath, EqualRequestsGiveEqualFiles) {
  server_.Start();
  const std::string a = directory_.File("a.mp4"), b = directory_.File("b.mp4");
  EXPECT_EQ(RunToEnd(server_.Generate("x", a)).status, 0);
  EXPECT_EQ(RunToEnd(server_.Generate("x", b)).status, 0);
  EXPECT_EQ(ReadFile(a), ReadFile(b));
}

TEST_F(ServedPath, AnswersAreJsonWhereAsked) {
  server_.Start();
  const std::string path = directory_.File("a \"quoted\" name.mp4");
  const Result result = RunToEnd(server_.Generate("x", path, {"--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const auto answer = nlohmann::json::parse(result.out);
  EXPECT_EQ(answer["video"]["state"], "COMPLETED");
  EXPECT_EQ(answer["video"]["effective"]["num_frames"], 9);
  EXPECT_EQ(answer["files"][0], path);
  const std::string id = answer["video"]["id"];
  EXPECT_EQ(server_.Json({"get", id})["artifacts"][0]["sha256"], answer["video"]["artifacts"][0]["sha256"]);
  EXPECT_EQ(server_.Json({"list"})["id"], id);
  EXPECT_EQ(server_.Json({"models"})["id"], "scripted");
  EXPECT_EQ(server_.Json({"estimate", "--prompt=x"})["seconds"], 101.5);  // the model has learned of its run
  const auto refused = nlohmann::json::parse(server_.Run({"create", "--prompt=x", "--width=33", "--json"}).out);
  EXPECT_EQ(refused["error"]["code"], 3);
}

TEST_F(ServedPath, ARefusedRequestNamesItsFieldAndExitsTwo) {
  server_.Start();
  const Result result = RunToEnd(server_.Generate("x", directory_.File("x.mp4"), {"--frames=10", "--width=33"}));
  EXPECT_EQ(result.status, kRefused);
  EXPECT_THAT(result.err, HasSubstr("\n  generation.num_frames is set by --frames\n"));
  EXPECT_THAT(result.err, HasSubstr("\n  generation.width is set by --width\n"));
  const std::string said = "generation.num_frames: ";
  EXPECT_EQ(result.err.find(said), result.err.rfind(said)) << result.err;  // printed once
  EXPECT_EQ(server_.Run({"get", "no-such-job"}).status, kRefused);
  EXPECT_EQ(server_.Run({"list"}).out, "");
}

// Errors that the engine would find minutes later are returned at once. All calls name the same field, and no job is
// created.
TEST_F(ServedPath, WhatTheEngineWouldRefuseGetsNoJobAndNoEstimate) {
  server_.Start();
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"--frame-rate=500"}, "generation.frame_rate: 500 is not within 1..240; nearest: 240"},
      {{"--recipe=ONE_STAGE", "--video-guidance={\"skipStep\": 5000}"},
       "generation.video_guidance.skip_step: 5000 is not within 0..999; nearest: 999"},
      {{"--recipe=ONE_STAGE", "--video-guidance={\"stgScale\": 1, \"stgBlocks\": [77]}"},
       "generation.video_guidance.stg_blocks[0]: 77 is not a block; this model has 0..3; nearest: 3"},
      {{"--recipe=ONE_STAGE", "--schedule-tokens=2147483647"}, "generation.schedule_tokens: with 2147483647 tokens"},
      {{"--recipe=ONE_STAGE", "--sigmas=1,1e-300,0"}, "generation.sigmas[1]: 1e-300 is not within 1e-06..1"}};
  for (const auto& [flags, says] : mistakes) {
    for (const char* command : {"generate", "create", "estimate"}) {
      std::vector<std::string> arguments = {command, "--prompt=x"};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      const Result result = server_.Run(arguments);
      EXPECT_EQ(result.status, kRefused) << command;
      EXPECT_THAT(result.err, HasSubstr(says)) << command;
    }
  }
  EXPECT_EQ(server_.Run({"list"}).out, "");
}

TEST_F(ServedPath, AFailedJobExitsThree) {
  server_.Start();
  const Result result = RunToEnd(server_.Generate("fail_at=2", directory_.File("x.mp4")));
  EXPECT_EQ(result.status, kFailed);
  EXPECT_THAT(result.err, HasSubstr("out of memory in denoise"));
  EXPECT_FALSE(std::filesystem::exists(directory_.File("x.mp4")));
  EXPECT_EQ(RunToEnd(server_.Generate("x", directory_.File("y.mp4"))).status, 0);  // the same worker continues
}

TEST_F(ServedPath, ACompletedJobHasNoTimeLeft) {
  server_.Start();
  const auto video = AwaitEnd(server_.Create("steps=2"));
  EXPECT_EQ(video["progress"]["fraction"], 1);
  EXPECT_FALSE(video["progress"].contains("remaining")) << video["progress"];
}

TEST_F(ServedPath, CtrlCCancelsTheJobAndSaysSo) {
  server_.Start();
  Process client(server_.Generate(gate_.Prompt(), directory_.File("x.mp4")));
  ASSERT_NE(client.AwaitLine("denoise"), "");
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
  EXPECT_NE(client.AwaitLine("cancelled"), "");
  EXPECT_EQ(server_.Json({"list"})["state"], "CANCELLED");
  EXPECT_EQ(RunToEnd(server_.Generate("x", directory_.File("y.mp4"))).status, 0);
}

TEST_F(ServedPath, AnotherClientsCancelEndsTheJobToo) {
  server_.Start();
  const std::string id = server_.Create(gate_.Prompt());
  Process watch(server_.Client({"watch", id}));
  ASSERT_NE(watch.AwaitLine("denoise"), "");
  EXPECT_EQ(server_.Run({"cancel", id}).status, 0);
  EXPECT_EQ(watch.Wait(), kCancelled);
}

TEST_F(ServedPath, LeavingAWatchDoesNotCancel) {
  server_.Start();
  const std::string id = server_.Create(gate_.Prompt());
  Process watch(server_.Client({"watch", id}));
  ASSERT_NE(watch.AwaitLine("denoise"), "");
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.Wait(), kUnreachable);
  gate_.Open();
  EXPECT_EQ(AwaitEnd(id)["state"], "COMPLETED");
}

TEST_F(ServedPath, AJobWhoseWorkerIsKilledIsRunAgainAndCompleted) {
  server_.Start();
  const std::string path = directory_.File("clip.mp4");
  Process client(server_.Generate(gate_.Prompt(), path, {"--json"}));
  ASSERT_NE(client.AwaitLine("denoise"), "");
  const pid_t worker = server_.WorkerPid();
  ASSERT_EQ(kill(worker, SIGKILL), 0);
  gate_.Open();
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  client.AwaitEndOfOutput();
  EXPECT_EQ(nlohmann::json::parse(client.Out())["video"]["attempt"], 2);
  EXPECT_THAT(client.Err(), HasSubstr("QUEUED again"));
  EXPECT_EQ(ReadFile(path).substr(4, 4), "ftyp");
  EXPECT_NE(server_.WorkerPid(), worker);
}

TEST_F(ServedPath, TheSecondLostWorkerFailsTheJobAndOthersGoOn) {
  server_.Start();
  const std::string poison = server_.Create("crash_at=2"), next = server_.Create("x");
  const auto failed = AwaitEnd(poison);
  EXPECT_EQ(failed["state"], "FAILED");
  EXPECT_EQ(failed["error"]["code"], 10);  // ABORTED
  EXPECT_THAT(failed["error"]["details"].dump(), HasSubstr("WORKER_GROUP_LOST"));
  EXPECT_EQ(failed["attempt"], 2);
  EXPECT_EQ(AwaitEnd(next)["state"], "COMPLETED");
}

TEST_F(ServedPath, WhatAKilledWorkerHadHalfWrittenIsRemoved) {
  server_.Start();
  const std::string half =
      absl::StrCat(directory_.File("state/artifacts/.tmp/"), server_.WorkerPid(), "-0-job_1_video.mp4.part");
  WriteFile(half, "half");
  ASSERT_EQ(kill(server_.WorkerPid(), SIGKILL), 0);
  ASSERT_NE(server_.frontend().AwaitLine("event=worker_ended"), "");
  server_.AwaitReadyGroup();
  EXPECT_FALSE(std::filesystem::exists(half));
}

TEST_F(ServedPath, AHangingWorkerIsKilledByTheWatchdog) {
  server_.Start(true, {"--worker-step-floor-seconds=1"});
  const auto ended = AwaitEnd(server_.Create("hang_at=2"));
  EXPECT_EQ(ended["state"], "FAILED");
  EXPECT_THAT(std::string(ended["error"]["message"]), HasSubstr("without progress"));
}

TEST_F(ServedPath, AKilledFrontendTakesItsWorkerAlongAndLosesNoJob) {
  server_.Start();
  const std::string path = directory_.File("clip.mp4");
  Process client(server_.Generate(gate_.Prompt(), path, {"--json"}));
  ASSERT_NE(client.AwaitLine("denoise"), "");
  std::vector<std::string> waiting(3);
  for (std::string& id : waiting) id = server_.Create("steps=2");
  const std::string running = server_.Json({"admin", "list"})["video_id"];

  server_.frontend().Signal(SIGKILL);
  EXPECT_EQ(server_.frontend().Wait(), 128 + SIGKILL);
  // The worker shares its frontend's output streams, so their end means that the worker has ended.
  EXPECT_TRUE(server_.frontend().AwaitEndOfOutput());

  gate_.Open();
  server_.Start(false);
  EXPECT_EQ(client.Wait(), 0) << client.Err();  // it has resumed watching
  client.AwaitEndOfOutput();
  EXPECT_EQ(nlohmann::json::parse(client.Out())["video"]["id"], running);
  EXPECT_EQ(ReadFile(path).substr(4, 4), "ftyp");
  for (const std::string& id : waiting) EXPECT_EQ(AwaitEnd(id)["state"], "COMPLETED");
}

TEST_F(ServedPath, WhatRunsTookOutlivesTheFrontend) {
  server_.Start();
  EXPECT_EQ(RunToEnd(server_.Generate("x", directory_.File("x.mp4"))).status, 0);
  server_.frontend().Signal(SIGTERM);
  EXPECT_EQ(server_.frontend().Wait(), 0);
  server_.Start();
  EXPECT_EQ(server_.Json({"estimate", "--prompt=x"})["seconds"], 101.5);
}

TEST_F(ServedPath, FrontendsThatAreKilledDoNotUseUpAJobsAttempts) {
  server_.Start();
  const std::string id = server_.Create(gate_.Prompt());
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(server_.frontend().AwaitLine("run_started"), "") << server_.frontend().Err();
    server_.frontend().Signal(SIGKILL);
    server_.frontend().Wait();
    server_.frontend().AwaitEndOfOutput();
    server_.Start(false);
  }
  gate_.Open();
  const auto ended = AwaitEnd(id);
  EXPECT_EQ(ended["state"], "COMPLETED");
  EXPECT_EQ(ended["attempt"], 4);
}

TEST_F(ServedPath, SigtermDrainsAndTheRestIsRunByTheNextFrontend) {
  server_.Start(true, {"--drain-grace-seconds=0.2"});
  const std::string id = server_.Create(gate_.Prompt());
  Process watch(server_.Client({"watch", id}));
  ASSERT_NE(watch.AwaitLine("denoise"), "");
  server_.frontend().Signal(SIGTERM);
  EXPECT_EQ(server_.frontend().Wait(), 0);
  EXPECT_TRUE(server_.frontend().AwaitEndOfOutput());
  EXPECT_EQ(server_.frontend().Err().find("group_lost"), std::string::npos) << server_.frontend().Err();
  gate_.Open();
  server_.Start(false);
  EXPECT_EQ(watch.Wait(), 0) << watch.Err();
  EXPECT_EQ(server_.Json({"get", id})["attempt"], 2);
}

TEST_F(ServedPath, SigtermLetsAShortRunEnd) {
  server_.Start();
  const std::string path = directory_.File("clip.mp4");
  const std::string id = server_.Create(gate_.Prompt());
  Process watch(server_.Client({"watch", id, "--json"}));
  ASSERT_NE(watch.AwaitLine("\"stage\""), "");
  server_.frontend().Signal(SIGTERM);
  ASSERT_NE(server_.frontend().AwaitLine("draining"), "");
  gate_.Open();
  EXPECT_EQ(server_.frontend().Wait(), 0);
  EXPECT_EQ(server_.frontend().Err().find("level=warning"), std::string::npos) << server_.frontend().Err();
  server_.Start();
  const auto video = server_.Json({"get", id});
  EXPECT_EQ(video["state"], "COMPLETED");
  EXPECT_EQ(video["attempt"], 1);
}

TEST_F(ServedPath, ASecondSignalDoesNotWaitForTheRunWhichStartsAgain) {
  server_.Start();
  const std::string id = server_.Create(gate_.Prompt());
  Process watch(server_.Client({"watch", id, "--json"}));
  ASSERT_NE(watch.AwaitLine("\"stage\""), "");
  for (const int signal : {SIGTERM, SIGINT}) server_.frontend().Signal(signal);
  EXPECT_NE(server_.frontend().Wait(), 0);
  gate_.Open();
  server_.Start(false);
  EXPECT_EQ(AwaitEnd(id)["attempt"], 2);
}

// The disk fills up while a job runs, so the clip cannot be written. The job's outcome is stored anyway, the job can be
// deleted, and the next job runs once there is space.
TEST_F(ServedPath, ADiskThatFillsUnderAJobFailsItByNameAndTheNextJobRuns) {
  const std::string disk = directory_.File("state");
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  const auto result = OnSmallDisk(disk, 10 << 20, [&]() -> std::string {
    // The child exits without running destructors outside this function, so the frontend must be stopped here.
    struct Stop {
      ~Stop() { server.TakeFrontend(); }
      Server& server;
    } const stop{server_};
    server_.Start();
    const std::string id = server_.Create(gate_.Prompt());
    Process watch(server_.Client({"watch", id}));
    if (watch.AwaitLine("denoise").empty()) return "no step";
    const std::string filler = disk + "/filler";
    std::ofstream(filler) << std::string(10 << 20, 'x') << std::flush;
    gate_.Open();
    if (const int status = watch.Wait(); status != kFailed) return absl::StrCat("watch ended with ", status);
    const auto video = server_.Json({"get", id});
    if (video["error"]["code"] != 8) return video["error"].dump();
    if (video["error"]["details"].dump().find("DISK_FULL") == std::string::npos) return video["error"].dump();
    if (video["error"].dump().find(disk) != std::string::npos) return "a client is told of folders";
    if (const Result deleted = server_.Run({"delete", id}); deleted.status != 0) return deleted.err;
    unlink(filler.c_str());
    const std::string next = AwaitEnd(server_.Create("x"))["state"];
    return next == "COMPLETED" ? "" : next;
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

TEST_F(ServedPath, TheSameRequestIdIsTheSameJob) {
  server_.Start();
  const std::string id = server_.Create("x", {"--request-id=key"});
  EXPECT_EQ(server_.Create("x", {"--request-id=key"}), id);
  const Result other = server_.Run({"create", "--prompt=y", "--request-id=key"});
  EXPECT_EQ(other.status, kRefused);
  EXPECT_THAT(other.err, HasSubstr("ALREADY_EXISTS"));
}

TEST_F(ServedPath, DownloadFetchesTheFileAgainUntilTheJobIsDeleted) {
  server_.Start();
  const std::string first = directory_.File("first.mp4"), second = directory_.File("second.mp4");
  const auto made = nlohmann::json::parse(RunToEnd(server_.Generate("x", first, {"--json"})).out);
  const std::string id = made["video"]["id"];
  EXPECT_EQ(server_.Run({"download", id, "-o", second}).status, 0);
  EXPECT_EQ(ReadFile(first), ReadFile(second));
  EXPECT_EQ(server_.Run({"delete", id}).status, 0);
  EXPECT_EQ(server_.Run({"download", id, "-o", second}).status, kRefused);
}

TEST_F(ServedPath, AdministratorsListDrainAndRestartGroups) {
  server_.Start();
  EXPECT_EQ(server_.Json({"admin", "list"})["state"], "idle");
  EXPECT_EQ(server_.Json({"admin", "drain", "0"})["state"], "drained");
  const std::string id = server_.Create("x");
  EXPECT_EQ(server_.Json({"get", id})["state"], "QUEUED");
  const pid_t drained = server_.WorkerPid();
  EXPECT_EQ(server_.Run({"admin", "restart", "0"}).status, 0);
  EXPECT_EQ(AwaitEnd(id)["state"], "COMPLETED");
  EXPECT_NE(server_.WorkerPid(), drained);
  EXPECT_EQ(server_.Run({"admin", "restart", "7"}).status, kRefused);
}

TEST_F(ServedPath, MetricsCountTheJobsThatWereSentAndReturnToZero) {
  server_.Start();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(RunToEnd(server_.Generate("x", directory_.File("x.mp4"))).status, 0);
  EXPECT_EQ(RunToEnd(server_.Generate("fail_at=1", directory_.File("x.mp4"))).status, kFailed);
  const std::string id = server_.Create(gate_.Prompt());
  Process watch(server_.Client({"watch", id}));
  ASSERT_NE(watch.AwaitLine("denoise"), "");
  EXPECT_THAT(server_.MetricsPage(), HasSubstr("\nkinora_jobs_running 1\n"));
  server_.Run({"cancel", id});
  EXPECT_EQ(watch.Wait(), kCancelled);
  AwaitEnd(server_.Create("crash_at=1"));
  server_.AwaitReadyGroup();
  EXPECT_EQ(RunToEnd(server_.Generate("x", directory_.File("x.mp4"))).status, 0);

  std::string page;  // a client learns of the end of its job before the group is free
  while ((page = server_.MetricsPage()).find("\nkinora_jobs_running 0\n") == std::string::npos) continue;
  const auto requests = [](const char* code, int count) {
    return absl::StrCat("kinora_requests_total{code=\"", code, "\",model=\"scripted\",recipe=\"DISTILLED\"} ", count,
                        "\n");
  };
  EXPECT_THAT(page, HasSubstr(requests("OK", 4)));
  EXPECT_THAT(page, HasSubstr(requests("RESOURCE_EXHAUSTED", 1)));
  EXPECT_THAT(page, HasSubstr(requests("CANCELLED", 1)));
  EXPECT_THAT(page, HasSubstr(requests("ABORTED", 1)));
  EXPECT_THAT(page, HasSubstr("kinora_queue_depth{priority=\"0\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("kinora_queue_wait_seconds_count 8\n"));  // 3 + 1 + 1 + 2 attempts + 1
  EXPECT_THAT(page, HasSubstr("kinora_cancel_latency_seconds_count 1\n"));
  // The end of a killed process or the end of its stream may be seen first.
  EXPECT_EQ(Value(page, "kinora_group_restarts_total{reason=\"disconnected\"}") +
                Value(page, "kinora_group_restarts_total{reason=\"process_ended\"}"),
            2);
}

TEST_F(ServedPath, GroupsOfTheConfigurationEachRunJobs) {
  const std::string path = directory_.File("kinora.textproto");
  std::ofstream(path) << "groups { id: 'a' worker { model: 'scripted' http_address: '127.0.0.1:0' } }\n"
                         "groups { id: 'b' worker { model: 'scripted' http_address: '127.0.0.1:0' } }\n";
  Server server(directory_, {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {"--config", path}});
  server.Start();
  for (const char* id : {"a", "b"}) {
    ASSERT_NE(server.frontend().AwaitLine(absl::StrCat("event=group_ready group=", id)), "") << server.frontend().Err();
  }
  const std::string first = server.Create(gate_.Prompt()), second = server.Create(gate_.Prompt());
  for (const std::string& id : {first, second}) {  // both run at the same time
    Process watch(server.Client({"watch", id}));
    EXPECT_NE(watch.AwaitLine("denoise"), "") << watch.Err();
  }
  gate_.Open();
  for (const std::string& id : {first, second}) {
    RunToEnd(server.Client({"watch", id}));
    EXPECT_EQ(server.Json({"get", id})["state"], "COMPLETED");
  }
}

// A log collector reads one stream in one format and can identify each line's process.
TEST_F(ServedPath, EachLineOfAJsonLogSaysWhichProcessSpeaks) {
  server_.Start(true, {"--log-format=json"});
  EXPECT_EQ(RunToEnd(server_.Generate("x", directory_.File("a.mp4"))).status, 0);
  server_.frontend().Signal(SIGTERM);
  EXPECT_EQ(server_.frontend().Wait(), 0);
  server_.frontend().AwaitEndOfOutput();
  std::map<std::string, std::vector<nlohmann::json>> started;  // by process
  std::istringstream log(server_.frontend().Err());
  for (std::string line; std::getline(log, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(record.is_object()) << line;
    const std::string process = record.value("process", "");
    EXPECT_TRUE(process == "frontend" || process == "worker") << line;
    if (record["event"] == "run_started") started[process].push_back(record);
  }
  ASSERT_EQ(started["frontend"].size(), 1U);
  ASSERT_EQ(started["worker"].size(), 1U);
  EXPECT_EQ(started["frontend"][0]["attempt"], 1);
  EXPECT_EQ(started["worker"][0]["attempt"], 1);
  EXPECT_EQ(started["worker"][0]["group"], "0");
  EXPECT_EQ(started["worker"][0]["rank"], 0);
}

constexpr int kStartAgain = 75;  // requests a restart by the launcher

// Two processes that the test starts itself, as one group.
class TwoRanks : public ServedPath {
 protected:
  TwoRanks() : alone_(directory_, {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {}}) { alone_.Start(false); }
  std::unique_ptr<Process> Rank(int rank, const std::string& incarnation) const {
    return std::make_unique<Process>(std::vector<std::string>{
        KINORA_SCRIPTED_WORKER_BINARY, absl::StrCat("--frontend=unix:", directory_.File("state/worker.sock")),
        "--model=scripted", "--http-address=", "--group=pair", absl::StrCat("--incarnation=", incarnation),
        absl::StrCat("--rank=", rank), "--world-size=2"});
  }
  Server alone_;  // a frontend without a configured group
};

TEST_F(TwoRanks, AreAwaitedByClientsUntilTheModelIsThere) {
  const Result at_once = alone_.Run({"estimate", "x", "--no-wait"});
  EXPECT_EQ(at_once.status, kUnreachable);
  EXPECT_THAT(at_once.err, HasSubstr("NO_MODEL"));
  EXPECT_EQ(alone_.Run({"models", "--no-wait"}).status, kUnreachable);
  Process generate(alone_.Generate("x", directory_.File("x.mp4"))), models(alone_.Client({"models"}));
  EXPECT_NE(generate.AwaitLine("at most: no worker group has loaded a model yet"), "") << generate.Err();
  EXPECT_NE(models.AwaitLine("at most: no worker group has loaded a model yet"), "") << models.Err();
  const auto follower = Rank(1, "first"), leader = Rank(0, "first");
  EXPECT_EQ(models.Wait(), 0) << models.Err();
  EXPECT_EQ(generate.Wait(), 0) << generate.Err();
}

TEST_F(TwoRanks, FindEachOtherThroughTheFrontendAndRunAJobAsOne) {
  const auto follower = Rank(1, "first"), leader = Rank(0, "first");
  alone_.AwaitReadyGroup();
  EXPECT_EQ(alone_.Json({"admin", "list"})["ranks"].size(), 2u);
  const std::string id = alone_.Create("steps=3");
  RunToEnd(alone_.Client({"watch", id}));
  EXPECT_EQ(alone_.Json({"get", id})["state"], "COMPLETED");
}

// The leader waits for the failed rank, as in a collective, and exits only because it is told to abort.
TEST_F(TwoRanks, ARankThatFailsAloneEndsTheOtherAndLosesTheGroup) {
  std::string id;
  for (const char* incarnation : {"first", "second"}) {
    const auto follower = Rank(1, incarnation), leader = Rank(0, incarnation);
    if (id.empty()) {
      alone_.AwaitReadyGroup();
      id = alone_.Create("alone=1");
    }
    EXPECT_EQ(follower->Wait(), kStartAgain) << follower->Err();
    EXPECT_EQ(leader->Wait(), kStartAgain) << leader->Err();
  }
  EXPECT_NE(alone_.frontend().AwaitLine("rank 1 failed: a rank failed: the device is lost"), "");
  RunToEnd(alone_.Client({"watch", id}));
  const auto video = alone_.Json({"get", id});
  EXPECT_EQ(video["state"], "FAILED");
  EXPECT_THAT(video["error"].dump(), HasSubstr("WORKER_GROUP_LOST"));
}

}  // namespace
}  // namespace kinora
