#include "server/frontend/groups/group_supervisor.h"

#include <sys/wait.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/growing_pause.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/secret.h"

namespace kinora {

GroupSupervisor::GroupSupervisor(GroupSupervisorOptions options, Clock& clock, EndListener on_end)
    : options_(std::move(options)), clock_(clock), on_end_(std::move(on_end)), thread_([this] { Run(); }) {}

void GroupSupervisor::Run() {
  GrowingPause pause(options_.shortest_pause, options_.longest_pause);
  int wrong_ends = 0;
  while (true) {
    const std::string files = options_.files ? options_.files() : "";
    const std::string incarnation = DrawIncarnation();
    const absl::Time born = clock_.Now();
    const std::string why = LiveOnce(incarnation);
    if (clock_.Now() - born >= options_.good_life) pause.Reset();
    on_end_(options_.group, incarnation, why);
    wrong_ends = absl::EndsWith(why, "exit status 2") ? wrong_ends + 1 : 0;
    if (options_.files && wrong_ends == options_.wrong_ends) {
      if (!AwaitOtherFiles(files)) return;
      wrong_ends = 0;
      pause.Reset();
      continue;
    }
    if (!Pause(pause.Next())) return;
  }
}

std::string GroupSupervisor::LiveOnce(const std::string& incarnation) {
  const std::string secret = DrawSecret();
  if (options_.on_begin) options_.on_begin(incarnation, secret);
  const absl::Status spawned = Spawn(incarnation, secret);
  std::string why = spawned.ok() ? WaitForEnd() : std::string(spawned.message());
  std::vector<std::unique_ptr<ChildProcess>> ended;
  bool stopping;
  {
    absl::MutexLock lock(&mu_);
    stopping = stopping_;
    ended.swap(children_);
  }
  for (auto& child : ended) {
    const pid_t pid = child->pid();
    child.reset();  // kills a process left from an incomplete start
    if (options_.on_process_end) options_.on_process_end(pid);
  }
  Log(stopping ? Severity::kInfo : Severity::kWarning, "worker_ended",
      {{"group", options_.group}, {"incarnation", incarnation}, {"how", why}});
  return why;
}

absl::Status GroupSupervisor::Spawn(const std::string& incarnation, const std::string& secret) {
  absl::MutexLock lock(&mu_);
  incarnation_ = incarnation;
  restart_ = false;
  for (int rank = 0; rank < options_.processes; ++rank) {
    if (stopping_) return absl::CancelledError("stopping");
    std::vector<std::string> arguments = options_.arguments;
    arguments.push_back(absl::StrCat("--lifeline-fd=", ChildProcess::kLifelineFd));
    arguments.push_back(absl::StrCat("--incarnation=", incarnation));
    arguments.push_back(absl::StrCat("--rank=", rank));
    arguments.push_back(absl::StrCat("--world-size=", options_.processes));
    arguments.push_back(absl::StrCat("--secret-fd=", ChildProcess::kSecretFd));
    // All ranks are in the process group of rank 0, so that one wait covers them.
    const pid_t process_group = rank == 0 ? 0 : children_[0]->pid();
    KINORA_ASSIGN_OR_RETURN(auto child, ChildProcess::Spawn(options_.binary, arguments, secret, process_group));
    Log(Severity::kInfo, "worker_started",
        {{"group", options_.group}, {"incarnation", incarnation}, {"rank", rank}, {"pid", child->pid()}});
    children_.push_back(std::move(child));
  }
  return absl::OkStatus();
}

std::string GroupSupervisor::WaitForEnd() {
  std::vector<ChildProcess*> children;  // only this thread removes them
  {
    absl::MutexLock lock(&mu_);
    for (const auto& child : children_) children.push_back(child.get());
  }
  siginfo_t first{};
  Uninterrupted([&] { return waitid(P_PGID, children[0]->pid(), &first, WEXITED | WNOWAIT); });
  std::string why;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    if (children[rank]->pid() != first.si_pid) {
      children[rank]->Kill();
      children[rank]->Wait();
      continue;
    }
    why = children.size() == 1 ? "" : absl::StrCat("rank ", rank, ": ");
    absl::StrAppend(&why, children[rank]->Wait());
  }
  return why;
}

bool GroupSupervisor::Pause(absl::Duration pause) {
  const auto wanted = [this] {
    mu_.AssertHeld();
    return stopping_ || restart_;
  };
  absl::MutexLock lock(&mu_);
  clock_.AwaitUntil(mu_, absl::Condition(&wanted), clock_.Now() + pause);
  return !stopping_;
}

bool GroupSupervisor::AwaitOtherFiles(const std::string& files) {
  if (options_.on_give_up) options_.on_give_up();
  while (Pause(options_.files_pause)) {
    {
      absl::MutexLock lock(&mu_);
      if (restart_) return true;
    }
    if (options_.files() != files) return true;
  }
  return false;
}

void GroupSupervisor::Restart() {
  absl::MutexLock lock(&mu_);
  restart_ = true;
  for (const auto& child : children_) child->Kill();
}

void GroupSupervisor::Kill(const std::string& incarnation) {
  absl::MutexLock lock(&mu_);
  if (incarnation_ != incarnation) return;
  for (const auto& child : children_) child->Kill();
}

void GroupSupervisor::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    for (const auto& child : children_) child->CloseLifeline();
    const auto gone = [this] {
      mu_.AssertHeld();
      return children_.empty();
    };
    Clock& steady = Clock::Steady();
    if (!steady.AwaitUntil(mu_, absl::Condition(&gone), steady.Now() + options_.stop_grace)) {
      for (const auto& child : children_) child->Kill();
    }
  }
  thread_.join();
}

std::vector<pid_t> GroupSupervisor::pids() const {
  absl::MutexLock lock(&mu_);
  std::vector<pid_t> pids;
  for (const auto& child : children_) pids.push_back(child->pid());
  return pids;
}

}  // namespace kinora
