// The supervisor with real processes: small shell scripts instead of workers.
#include "server/frontend/groups/group_supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

struct End {
  std::string incarnation, how;
};

class Ends {  // records the ends that the supervisor reports
 public:
  GroupSupervisor::EndListener Listener() {
    return [this](const std::string&, const std::string& incarnation, const std::string& how) {
      absl::MutexLock lock(&mu_);
      ends_.push_back({incarnation, how});
    };
  }
  End Next() {
    const auto any = [this] {
      mu_.AssertHeld();
      return !ends_.empty();
    };
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&any), absl::Seconds(30))) << "no process ended";
    End end = ends_.front();
    ends_.pop_front();
    return end;
  }

 private:
  absl::Mutex mu_;
  std::deque<End> ends_ ABSL_GUARDED_BY(mu_);
};

GroupSupervisorOptions Script(const std::string& script) {
  return {.binary = "/bin/sh", .arguments = {"-c", script, "worker"}};  // appended arguments become $1, $2
}

// Reads a line that the script writes to the FIFO `path`; blocks until it is written.
std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

class GroupSupervisorTest : public testing::Test {
 protected:
  GroupSupervisorTest() : fifo_(directory_.File("fifo")) { KINORA_CHECK_EQ(mkfifo(fifo_.c_str(), 0600), 0); }
  TemporaryDirectory directory_;
  const std::string fifo_;
  FakeClock clock_;
  Ends ends_;
};

TEST_F(GroupSupervisorTest, RestartsAfterPausesThatGrowToTheLongest) {
  GroupSupervisorOptions options = Script("exit 3");
  options.longest_pause = absl::Seconds(1);
  GroupSupervisor supervisor(options, clock_, ends_.Listener());
  std::string last;
  for (const absl::Duration pause : {absl::Milliseconds(500), absl::Seconds(1), absl::Seconds(1)}) {
    const End end = ends_.Next();
    EXPECT_EQ(end.how, "exit status 3");
    EXPECT_NE(end.incarnation, last);
    last = end.incarnation;
    clock_.AwaitWaiters(1);
    EXPECT_THAT(supervisor.pids(), IsEmpty());
    clock_.Advance(pause - absl::Milliseconds(1));
    clock_.AwaitWaiters(1);
    EXPECT_THAT(supervisor.pids(), IsEmpty());
    clock_.Advance(absl::Milliseconds(1));
  }
  ends_.Next();
}

TEST_F(GroupSupervisorTest, ALongLifeMakesThePauseShortAgain) {
  GroupSupervisor supervisor(Script(absl::StrCat("read x < ", fifo_)), clock_, ends_.Listener());
  for (int i = 0; i < 4; ++i) {
    std::ofstream(fifo_) << "on\n";  // blocks until the script reads
    ends_.Next();
    clock_.AwaitWaiters(1);
    clock_.Advance(absl::Milliseconds(500 << i));  // the pause after i doublings
  }
  while (supervisor.pids().empty()) sched_yield();  // it has started
  clock_.Advance(absl::Minutes(1));
  std::ofstream(fifo_) << "on\n";
  ends_.Next();
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Milliseconds(500));
  std::ofstream(fifo_) << "on\n";
  ends_.Next();
}

TEST_F(GroupSupervisorTest, ABinaryThatCannotBeStartedIsReportedAndTriedAgain) {
  GroupSupervisor supervisor({.binary = "/nowhere/kinora-worker", .arguments = {}}, clock_, ends_.Listener());
  EXPECT_THAT(ends_.Next().how, HasSubstr("/nowhere/kinora-worker: No such file"));
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(ends_.Next().how, HasSubstr("No such file"));
}

// Exit status 2 is a worker's report that files are invalid. The same files will be invalid next time.
TEST_F(GroupSupervisorTest, GivesUpAfterThreeEndsOverWrongFilesUntilTheyChangeOrItIsToldTo) {
  absl::Mutex mu;
  std::string files = "as they were";
  int given_up = 0;
  GroupSupervisorOptions options = Script("exit 2");
  options.files = [&] {
    absl::MutexLock lock(&mu);
    return files;
  };
  options.on_give_up = [&] {
    absl::MutexLock lock(&mu);
    ++given_up;
  };
  GroupSupervisor supervisor(options, clock_, ends_.Listener());
  const auto await_giving_up = [&](int times) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(ends_.Next().how, "exit status 2");
      clock_.AwaitWaiters(1);
      if (i < 2) clock_.Advance(absl::Minutes(1));
    }
    absl::MutexLock lock(&mu);
    EXPECT_EQ(given_up, times);
  };
  await_giving_up(1);
  for (int i = 0; i < 10; ++i) {  // it checks repeatedly but starts nothing
    clock_.Advance(options.files_pause);
    clock_.AwaitWaiters(1);
    EXPECT_THAT(supervisor.pids(), IsEmpty());
  }
  {
    absl::MutexLock lock(&mu);
    files = "mended";
  }
  clock_.Advance(options.files_pause);
  await_giving_up(2);
  supervisor.Restart();
  clock_.Advance(absl::ZeroDuration());
  await_giving_up(3);
}

// Only its supervisor knows about a worker that hangs before it joins.
TEST_F(GroupSupervisorTest, ARestartEndsProcessesThatHangAndStartsThemAtOnce) {
  GroupSupervisor supervisor(Script(absl::StrCat("read x < ", fifo_)), clock_, ends_.Listener());
  while (supervisor.pids().empty()) sched_yield();
  const pid_t hanging = supervisor.pids()[0];
  supervisor.Restart();
  EXPECT_EQ(ends_.Next().how, "killed by signal 9 (Killed)");
  while (supervisor.pids().empty()) sched_yield();  // no time passes
  EXPECT_NE(supervisor.pids()[0], hanging);
}

TEST_F(GroupSupervisorTest, OtherEndsBetweenThemAreNoReasonToGiveUp) {
  GroupSupervisorOptions options = Script(absl::StrCat("read x < ", fifo_, "; exit $x"));
  options.files = [] { return ""; };
  options.on_give_up = [] { ADD_FAILURE(); };
  GroupSupervisor supervisor(options, clock_, ends_.Listener());
  for (const char* status : {"2", "2", "1", "2", "2", "75", "2", "2"}) {
    std::ofstream(fifo_) << status << "\n";
    EXPECT_EQ(ends_.Next().how, absl::StrCat("exit status ", status));
    clock_.AwaitWaiters(1);
    clock_.Advance(absl::Minutes(1));
  }
  std::ofstream(fifo_) << "1\n";  // read by the ninth process
  ends_.Next();
}

TEST_F(GroupSupervisorTest, TheWorkerInheritsTheStandardStreamsAndItsTwoPipesOnly) {
  const int leaked = fcntl(STDERR_FILENO, F_DUPFD, 77);  // not close-on-exec, as a careless library might leave it
  ASSERT_GE(leaked, 77);
  const std::string script = absl::StrCat(
      "ls=''; for f in /proc/$$/fd/*; do ls=\"$ls ${f##*/}\"; done; echo $1 $2 $ls > ", fifo_, "; read x <&3");
  GroupSupervisor supervisor(Script(script), clock_, ends_.Listener());
  const std::vector<std::string> words = absl::StrSplit(ReadLine(fifo_), ' ');
  close(leaked);
  ASSERT_GE(words.size(), 6u);
  EXPECT_EQ(words[0], "--lifeline-fd=3");
  EXPECT_THAT(words[1], HasSubstr("--incarnation="));
  EXPECT_THAT(words, Contains("3"));
  EXPECT_THAT(words, Contains("4"));
  EXPECT_THAT(words, Not(Contains(absl::StrCat(leaked))));
}

// Only the pipe may carry the secret, not the arguments, which everybody can read, nor the environment.
TEST_F(GroupSupervisorTest, EachIncarnationIsToldASecretOfItsOwn) {
  std::map<std::string, std::string> secrets;  // by incarnation
  absl::Mutex mu;
  GroupSupervisorOptions options =
      Script(absl::StrCat("{ od -An -v -tx1 <&4 | tr -d ' \\n'; echo; echo \"$2\"; tr '\\0' ' '",
                          " < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$$/environ; } > ", fifo_));
  options.on_begin = [&](const std::string& incarnation, const std::string& secret) {
    absl::MutexLock lock(&mu);
    secrets[absl::StrCat("--incarnation=", incarnation)] = secret;
  };
  GroupSupervisor supervisor(options, clock_, ends_.Listener());
  std::string last;
  for (int i = 0; i < 3; ++i) {
    std::ifstream told(fifo_);
    std::string hex, incarnation, elsewhere;
    std::getline(told, hex);
    std::getline(told, incarnation);
    std::getline(told, elsewhere, '\0');
    const std::string secret = absl::HexStringToBytes(hex);
    EXPECT_EQ(secret.size(), 32u);
    EXPECT_NE(secret, last);
    last = secret;
    {
      absl::MutexLock lock(&mu);
      EXPECT_EQ(secrets[incarnation], secret);
    }
    EXPECT_THAT(elsewhere, HasSubstr("--secret-fd=4"));
    EXPECT_THAT(elsewhere, Not(HasSubstr(secret)));
    EXPECT_THAT(elsewhere, Not(HasSubstr(hex)));
    ends_.Next();
    clock_.AwaitWaiters(1);
    clock_.Advance(absl::Seconds(30));
  }
  std::ifstream(fifo_).get();  // provides a reader for the fourth process
}

TEST_F(GroupSupervisorTest, StopEndsTheWorkerThroughItsLifeline) {
  GroupSupervisor supervisor(Script(absl::StrCat("echo up > ", fifo_, "; read x <&3; exit 7")), clock_,
                             ends_.Listener());
  EXPECT_EQ(ReadLine(fifo_), "up");
  supervisor.Stop();
  EXPECT_EQ(ends_.Next().how, "exit status 7");
  EXPECT_THAT(supervisor.pids(), IsEmpty());
}

TEST_F(GroupSupervisorTest, StopKillsAWorkerThatIgnoresItsLifeline) {
  GroupSupervisorOptions options = Script(absl::StrCat("echo up > ", fifo_, "; exec tail -f /dev/null"));
  options.stop_grace = absl::Milliseconds(50);
  GroupSupervisor supervisor(options, clock_, ends_.Listener());
  EXPECT_EQ(ReadLine(fifo_), "up");
  supervisor.Stop();
  EXPECT_THAT(ends_.Next().how, HasSubstr("killed by signal 9"));
}

TEST_F(GroupSupervisorTest, KillHitsOnlyThePresentIncarnation) {
  const std::string alive = directory_.File("alive");
  ASSERT_EQ(mkfifo(alive.c_str(), 0600), 0);
  GroupSupervisor supervisor(Script(absl::StrCat("echo $2 > ", fifo_, "; echo alive > ", alive, "; read x <&3")),
                             clock_, ends_.Listener());
  const std::string incarnation = ReadLine(fifo_).substr(std::string("--incarnation=").size());
  supervisor.Kill("another");
  EXPECT_EQ(ReadLine(alive), "alive");  // written after that Kill
  EXPECT_THAT(supervisor.pids(), SizeIs(1));
  supervisor.Kill(incarnation);
  const End end = ends_.Next();
  EXPECT_EQ(end.incarnation, incarnation);
  EXPECT_THAT(end.how, HasSubstr("killed by signal 9"));
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_NE(ReadLine(fifo_), absl::StrCat("--incarnation=", incarnation));
  EXPECT_EQ(ReadLine(alive), "alive");
}

// A group of three ranks that write "RANK WORLD_SIZE INCARNATION" and run until their lifelines end.
class GroupOfThree : public GroupSupervisorTest {
 protected:
  GroupOfThree() : lines_(std::fopen(fifo_.c_str(), "r+e")) { KINORA_CHECK(lines_ != nullptr) << fifo_; }
  ~GroupOfThree() override { std::fclose(lines_); }
  GroupSupervisorOptions Options() const {
    GroupSupervisorOptions options = Script(absl::StrCat("echo $3 $4 $2 > ", fifo_, "; read x <&3"));
    options.processes = 3;
    return options;
  }
  // Returns the lines of the next incarnation's ranks, in rank order.
  std::vector<std::string> AwaitRanks() {
    std::vector<std::string> ranks;
    for (char line[256]; ranks.size() < 3 && std::fgets(line, sizeof(line), lines_) != nullptr;) {
      ranks.emplace_back(absl::StripTrailingAsciiWhitespace(line));
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  static std::string IncarnationIn(const std::string& line) { return line.substr(line.rfind('=') + 1); }

 private:
  std::FILE* const lines_;  // also open for writing, so that a rank always has a reader
};

TEST_F(GroupOfThree, RanksShareAnIncarnationAndDifferInTheirRank) {
  GroupSupervisor supervisor(Options(), clock_, ends_.Listener());
  const std::vector<std::string> ranks = AwaitRanks();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(ranks[rank], HasSubstr(absl::StrCat("--rank=", rank, " --world-size=3 --incarnation=")));
    EXPECT_EQ(IncarnationIn(ranks[rank]), IncarnationIn(ranks[0]));
  }
  EXPECT_THAT(supervisor.pids(), SizeIs(3));
}

TEST_F(GroupOfThree, TheEndOfAnyRankEndsAllAndOneIncarnationFollows) {
  GroupSupervisor supervisor(Options(), clock_, ends_.Listener());
  for (const int rank : {1, 0, 2}) {  // includes the leader of the process group
    const std::vector<std::string> ranks = AwaitRanks();
    const std::vector<pid_t> pids = supervisor.pids();
    ASSERT_THAT(pids, SizeIs(3));
    kill(pids[rank], SIGTERM);
    const End end = ends_.Next();
    EXPECT_EQ(end.incarnation, IncarnationIn(ranks[0]));
    EXPECT_THAT(end.how, HasSubstr(absl::StrCat("rank ", rank, ": killed by signal 15")));
    EXPECT_THAT(supervisor.pids(), IsEmpty());
    for (const pid_t pid : pids) EXPECT_EQ(kill(pid, 0), -1) << "a rank was left behind";
    clock_.AwaitWaiters(1);
    clock_.Advance(absl::Seconds(5));
  }
  AwaitRanks();
}

TEST_F(GroupOfThree, KillAndStopReachEveryRank) {
  GroupSupervisor supervisor(Options(), clock_, ends_.Listener());
  supervisor.Kill(IncarnationIn(AwaitRanks()[0]));
  EXPECT_THAT(ends_.Next().how, HasSubstr("killed by signal 9"));
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Seconds(1));
  AwaitRanks();
  const std::vector<pid_t> pids = supervisor.pids();
  supervisor.Stop();
  for (const pid_t pid : pids) EXPECT_EQ(kill(pid, 0), -1);
}

TEST(GroupSupervisorDeath, AWorkerDoesNotOutliveAFrontendThatIsKilled) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // this process inherits the orphan and waits for it
  int report[2];
  ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
  const pid_t frontend = fork();
  if (frontend == 0) {
    GroupSupervisor supervisor(Script("read x <&3; exit 9"), Clock::Real(), [](auto&&...) {});
    while (supervisor.pids().empty()) sched_yield();
    const pid_t worker = supervisor.pids()[0];
    KINORA_CHECK_EQ(write(report[1], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
    pause();
  }
  pid_t worker = 0;
  ASSERT_EQ(read(report[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  ASSERT_EQ(kill(frontend, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(frontend, &status, 0), frontend);
  ASSERT_EQ(waitpid(worker, &status, 0), worker);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

}  // namespace
}  // namespace kinora
