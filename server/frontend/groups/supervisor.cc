#include "server/frontend/groups/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/logging.h"

extern char** environ;

namespace kinora {
namespace {

constexpr int kLifelineFd = 3;  // in the worker

std::string DrawIncarnation() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

absl::Status SystemError(std::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(std::string(what), ": ", std::strerror(error)));
}

// What the child does before exec, and what it is then.
class SpawnPlan {
 public:
  explicit SpawnPlan(int lifeline) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, lifeline, kLifelineFd);
    // Whatever a library opened without O_CLOEXEC.
    posix_spawn_file_actions_addclosefrom_np(&actions_, kLifelineFd + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);  // a Ctrl-C on the frontend's terminal is the frontend's to handle
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::string DescribeEnd(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return absl::StrCat("exit status ", info.si_status);
  return absl::StrCat("killed by signal ", info.si_status, " (", strsignal(info.si_status), ")");
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, Clock& clock, EndListener on_end)
    : options_(std::move(options)), clock_(clock), on_end_(std::move(on_end)), thread_([this] { Run(); }) {}

void Supervisor::Run() {
  absl::Duration pause = options_.shortest_pause;
  while (true) {
    const std::string incarnation = DrawIncarnation();
    const absl::Time born = clock_.Now();
    const absl::Status spawned = Spawn(incarnation);
    const std::string end = spawned.ok() ? WaitForEnd() : std::string(spawned.message());
    if (clock_.Now() - born >= options_.good_life) pause = options_.shortest_pause;
    bool stopping;
    {
      absl::MutexLock lock(&mu_);
      stopping = stopping_;
    }
    Log(stopping ? Severity::kInfo : Severity::kWarning, "worker_ended",
        {{"group", options_.group}, {"incarnation", incarnation}, {"how", end}});
    on_end_(options_.group, incarnation, end);
    if (!Pause(pause)) return;
    pause = std::min(pause * 2, options_.longest_pause);
  }
}

absl::Status Supervisor::Spawn(const std::string& incarnation) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  std::vector<std::string> arguments = {options_.binary};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  arguments.push_back(absl::StrCat("--lifeline-fd=", kLifelineFd));
  arguments.push_back(absl::StrCat("--incarnation=", incarnation));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  // The copy stays clear of the descriptor that it becomes: dup2 onto itself would leave it close-on-exec.
  const int lifeline = fcntl(pipe_ends[0], F_DUPFD_CLOEXEC, kLifelineFd + 1);
  close(pipe_ends[0]);
  const SpawnPlan plan(lifeline);
  absl::MutexLock lock(&mu_);
  if (stopping_) {
    close(lifeline);
    close(pipe_ends[1]);
    return absl::CancelledError("stopping");
  }
  pid_t pid = 0;
  const int error = posix_spawn(&pid, options_.binary.c_str(), plan.actions(), plan.attributes(), argv.data(), environ);
  close(lifeline);
  if (error != 0) {
    close(pipe_ends[1]);
    return SystemError(options_.binary, error);
  }
  incarnation_ = incarnation;
  pid_ = pid;
  lifeline_ = pipe_ends[1];
  Log(Severity::kInfo, "worker_started",
      {{"group", options_.group}, {"incarnation", incarnation}, {"pid", absl::StrCat(pid)}});
  return absl::OkStatus();
}

std::string Supervisor::WaitForEnd() {
  pid_t pid;
  {
    absl::MutexLock lock(&mu_);
    pid = pid_;
  }
  siginfo_t info{};
  while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  // Until it is reaped its number cannot become another process's, so Kill never hits a stranger.
  absl::MutexLock lock(&mu_);
  waitid(P_PID, pid, &info, WEXITED);
  pid_ = 0;
  if (lifeline_ >= 0) close(lifeline_);
  lifeline_ = -1;
  return DescribeEnd(info);
}

bool Supervisor::Pause(absl::Duration pause) {
  absl::MutexLock lock(&mu_);
  clock_.AwaitUntil(mu_, absl::Condition(&stopping_), clock_.Now() + pause);
  return !stopping_;
}

void Supervisor::Kill(const std::string& incarnation) {
  absl::MutexLock lock(&mu_);
  if (pid_ != 0 && incarnation_ == incarnation) kill(pid_, SIGKILL);
}

void Supervisor::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    if (lifeline_ >= 0) close(lifeline_);
    lifeline_ = -1;
    const auto gone = [this] {
      mu_.AssertHeld();
      return pid_ == 0;
    };
    if (!Clock::Real().AwaitUntil(mu_, absl::Condition(&gone), absl::Now() + options_.stop_grace)) kill(pid_, SIGKILL);
  }
  thread_.join();
}

pid_t Supervisor::pid() const {
  absl::MutexLock lock(&mu_);
  return pid_;
}

}  // namespace kinora
