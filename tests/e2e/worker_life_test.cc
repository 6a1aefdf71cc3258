// A supervised worker whose frontend is stopped for a while, and others that pose as it: the real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "server/common/build_version.h"
#include "tests/e2e/gate.h"
#include "tests/e2e/server.h"
#include "tests/testing/join_call.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Processes that are stopped until the end of a span of time, for that is what is tested.
void StopFor(const std::vector<pid_t>& pids, absl::Duration span) {
  for (const pid_t pid : pids) KINORA_CHECK_EQ(kill(pid, SIGSTOP), 0);
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  bool never = false;
  Clock::Steady().AwaitUntil(mu, absl::Condition(&never), Clock::Steady().Now() + span);
  for (const pid_t pid : pids) KINORA_CHECK_EQ(kill(pid, SIGCONT), 0);
}

// A worker that writes down its arguments and waits to be let go, through two FIFOs.
std::string HeldWorkerScript(const TemporaryDirectory& directory) {
  std::string path = directory.File("held_worker");
  std::ofstream(path) << "#!/bin/sh\necho \"$@\" > " << directory.File("arguments") << "\nread x < "
                      << directory.File("go_on") << "\nexec " << KINORA_SCRIPTED_WORKER_BINARY << " \"$@\"\n";
  KINORA_CHECK_EQ(chmod(path.c_str(), 0700), 0);
  for (const char* fifo : {"arguments", "go_on"}) KINORA_CHECK_EQ(mkfifo(directory.File(fifo).c_str(), 0600), 0);
  return path;
}

class WorkerLife : public testing::Test {
 protected:
  explicit WorkerLife(bool held = false)
      : server_(directory_, {.binary = held ? HeldWorkerScript(directory_) : KINORA_SCRIPTED_WORKER_BINARY,
                             .flags = {"--worker-model=scripted"}}) {}

  nlohmann::json AwaitEnd(const std::string& id) {
    RunToEnd(server_.Client({"watch", id}));
    return server_.Json({"get", id});
  }
  std::string socket() const { return absl::StrCat("unix:", directory_.File("state/worker.sock")); }

  TemporaryDirectory directory_;
  Gate gate_{directory_};
  Server server_;
};

// Silence for 2 s loses a worker; the frontend is stopped for longer than that, three times, while a job runs.
class Pauses : public WorkerLife {
 protected:
  void ExpectNothingIsLost(bool stop_worker) {
    server_.Start(true, {"--worker-heartbeat-timeout-seconds=2", "--worker-step-floor-seconds=2", "--lease-seconds=1"});
    const std::string id = server_.Create(gate_.Prompt());
    ASSERT_NE(server_.frontend().AwaitLine("run_started"), "");
    std::vector<pid_t> stopped = {server_.frontend().pid()};
    if (stop_worker) stopped.push_back(server_.WorkerPid());
    for (int i = 0; i < 3; ++i) {
      StopFor(stopped, absl::Seconds(3));
      EXPECT_EQ(server_.Json({"get", id})["state"], "RUNNING");
    }
    gate_.Open();
    const auto video = AwaitEnd(id);
    EXPECT_EQ(video["state"], "COMPLETED");
    EXPECT_EQ(video["attempt"], 1);
    EXPECT_THAT(server_.frontend().Err(), Not(HasSubstr("event=group_lost")));
    EXPECT_THAT(server_.MetricsPage(), AllOf(HasSubstr("kinora_group_restarts_total{"),
                                             Not(ContainsRegex("kinora_group_restarts_total\\{[^}]*\\} [1-9]"))));
  }
};

TEST_F(Pauses, OfTheFrontendLoseNoWorker) { ExpectNothingIsLost(/*stop_worker=*/false); }

TEST_F(Pauses, OfTheWholeMachineLoseNoWorker) { ExpectNothingIsLost(/*stop_worker=*/true); }

TEST_F(WorkerLife, AWorkerThatIsStoppedAloneIsLostAndItsJobRunsAgain) {
  server_.Start(true, {"--worker-heartbeat-timeout-seconds=2"});
  const std::string id = server_.Create(gate_.Prompt());
  ASSERT_NE(server_.frontend().AwaitLine("run_started"), "");
  ASSERT_EQ(kill(server_.WorkerPid(), SIGSTOP), 0);
  EXPECT_THAT(server_.frontend().AwaitLine("event=group_lost"), HasSubstr("was silent"));
  gate_.Open();
  EXPECT_EQ(AwaitEnd(id)["attempt"], 2);
}

// The worker is held before it says Hello, so that whoever poses as it comes first.
class HeldWorker : public WorkerLife {
 protected:
  HeldWorker() : WorkerLife(/*held=*/true) {}

  // What everybody can read of a process.
  v1::Hello PoseAsTheHeldWorker() const {
    std::ifstream arguments(directory_.File("arguments"));  // waits until it has started
    v1::Hello hello;
    for (std::string word; arguments >> word;) {
      if (word.rfind("--incarnation=", 0) == 0) hello.set_incarnation(word.substr(word.find('=') + 1));
    }
    hello.set_group("0");
    hello.set_world_size(1);
    hello.set_build(kBuildVersion);
    hello.set_commit(ThisBuild().commit);
    hello.set_protocol(ThisBuild().protocol);
    return hello;
  }
  void LetGo() const { std::ofstream(directory_.File("go_on")) << "go on\n"; }
};

TEST_F(HeldWorker, AForgedHelloIsDeniedAndTheRealWorkerWorks) {
  server_.Start(false);
  const v1::Hello forged = PoseAsTheHeldWorker();
  ASSERT_NE(forged.incarnation(), "");
  const auto denied = StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("secret: group 0 is supervised"));
  EXPECT_THAT(SayHello({socket()}, forged), denied);
  LetGo();
  server_.AwaitReadyGroup();
  const std::string id = server_.Create(gate_.Prompt());
  ASSERT_NE(server_.frontend().AwaitLine("run_started"), "");
  EXPECT_THAT(SayHello({socket()}, forged), denied);
  gate_.Open();
  const auto video = AwaitEnd(id);
  EXPECT_EQ(video["state"], "COMPLETED");
  EXPECT_EQ(video["attempt"], 1);
  const std::string log = server_.frontend().Err();
  EXPECT_THAT(log, Not(HasSubstr("event=group_lost")));
  EXPECT_EQ(log.find("event=worker_started"), log.rfind("event=worker_started"));  // one
}

TEST_F(WorkerLife, FrontendAndWorkerSayWhatTheyAreMadeOf) {
  server_.Start();
  const std::string commit = absl::StrCat("commit=", kBuildCommit);
  EXPECT_THAT(server_.frontend().AwaitLine("event=serving"), HasSubstr(commit));
  EXPECT_THAT(server_.frontend().AwaitLine("event=joined"), HasSubstr(commit));  // the worker's own line
  EXPECT_THAT(server_.frontend().AwaitLine("event=worker_joined"), HasSubstr(commit));
}

// Started by somebody else: an empty secret, and any commit of the same protocol.
TEST_F(WorkerLife, AGroupThatNobodySupervisesJoinsBesideASupervisedOne) {
  server_.Start();
  v1::Hello hello;
  hello.set_group("by-hand");
  hello.set_incarnation("first");
  hello.set_world_size(1);
  hello.set_protocol(ThisBuild().protocol);
  hello.set_commit("another");
  EXPECT_THAT(SayHello({socket()}, hello), IsOk());
  hello.set_incarnation("second");
  hello.set_protocol("words of another version");
  EXPECT_THAT(SayHello({socket()}, hello), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol: ")));
}

}  // namespace
}  // namespace kinora
