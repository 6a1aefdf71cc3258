// Real processes: a supervised worker whose frontend is paused, and clients that impersonate the worker.
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

// Stops processes for the given time. The real time is needed, because it is what the test is about.
void StopFor(const std::vector<pid_t>& pids, absl::Duration span) {
  for (const pid_t pid : pids) KINORA_CHECK_EQ(kill(pid, SIGSTOP), 0);
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  bool never = false;
  Clock::Steady().AwaitUntil(mu, absl::Condition(&never), Clock::Steady().Now() + span);
  for (const pid_t pid : pids) KINORA_CHECK_EQ(kill(pid, SIGCONT), 0);
}

// Writes a worker script that reports its arguments and then waits for permission to continue, through two FIFOs.
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

// A worker is lost after 2 s of silence. The frontend is paused for longer, three times, while a job runs.
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
  EXPECT_THAT(server_.frontend().AwaitLine("event=group_lost"), HasSubstr("sent no heartbeat"));
  gate_.Open();
  EXPECT_EQ(AwaitEnd(id)["attempt"], 2);
}

// Like systemd with KillMode=control-group, its default. The workers are signalled first, before the frontend knows
// that they are to stop.
class Stops : public WorkerLife {
 protected:
  void SignalAll(int signal) {
    const pid_t worker = server_.WorkerPid();
    KINORA_CHECK_EQ(kill(worker, signal), 0);
    server_.frontend().Signal(signal);
  }
};

TEST_F(Stops, OfAllProcessesAtOnceLetARunningJobEnd) {
  server_.Start();
  const std::string id = server_.Create(gate_.Prompt());
  ASSERT_NE(server_.frontend().AwaitLine("run_started"), "");
  SignalAll(SIGTERM);
  ASSERT_NE(server_.frontend().AwaitLine("event=draining"), "");
  gate_.Open();
  EXPECT_EQ(server_.frontend().Wait(), 0);
  EXPECT_THAT(server_.frontend().Err(), AllOf(Not(HasSubstr("event=group_lost")), Not(HasSubstr("killed by signal"))));
  server_.Start(false);
  const auto video = server_.Json({"get", id});
  EXPECT_EQ(video["state"], "COMPLETED");
  EXPECT_EQ(video["attempt"], 1);
}

TEST_F(Stops, OfAllProcessesAtOnceNeverCountAsLosses) {
  server_.Start(true, {"--drain-grace-seconds=0.1"});
  const std::string id = server_.Create(gate_.Prompt());
  for (int stop = 1; stop <= 3; ++stop) {
    ASSERT_NE(server_.frontend().AwaitLine("run_started"), "");
    SignalAll(SIGTERM);
    EXPECT_EQ(server_.frontend().Wait(), 0);
    server_.Start(true, {"--drain-grace-seconds=0.1"});
  }
  gate_.Open();
  const auto video = AwaitEnd(id);
  EXPECT_EQ(video["state"], "COMPLETED");
  EXPECT_EQ(video["attempt"], 4);
}

TEST_F(Stops, OfTheWorkerAloneByTwoSignalsRunItsJobAgainUncounted) {
  server_.Start(true, {"--max-lost-groups=1"});
  const std::string id = server_.Create(gate_.Prompt());
  ASSERT_NE(server_.frontend().AwaitLine("run_started"), "");
  const pid_t worker = server_.WorkerPid();
  for (const int signal : {SIGTERM, SIGINT}) ASSERT_EQ(kill(worker, signal), 0);
  ASSERT_NE(server_.frontend().AwaitLine("run_requeued"), "");
  EXPECT_THAT(server_.frontend().AwaitLine("event=worker_ended"), HasSubstr("exit status 0"));
  gate_.Open();
  EXPECT_EQ(AwaitEnd(id)["state"], "COMPLETED");
}

// The worker is held before its Hello, so that an impostor can come first.
class HeldWorker : public WorkerLife {
 protected:
  HeldWorker() : WorkerLife(/*held=*/true) {}

  // Uses only what everybody can read about a process.
  v1::Hello PoseAsTheHeldWorker() const {
    std::ifstream arguments(directory_.File("arguments"));  // waits until the worker has started
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
  EXPECT_EQ(log.find("event=worker_started"), log.rfind("event=worker_started"));  // only one
}

TEST_F(WorkerLife, FrontendAndWorkerSayWhatTheyAreMadeOf) {
  server_.Start();
  const std::string commit = absl::StrCat("commit=", kBuildCommit);
  EXPECT_THAT(server_.frontend().AwaitLine("event=serving"), HasSubstr(commit));
  EXPECT_THAT(server_.frontend().AwaitLine("event=joined"), HasSubstr(commit));  // the worker's own line
  EXPECT_THAT(server_.frontend().AwaitLine("event=worker_joined"), HasSubstr(commit));
}

// Without a supervisor: an empty secret, and any commit with the same protocol.
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
