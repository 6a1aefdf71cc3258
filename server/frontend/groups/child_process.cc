#include "server/frontend/groups/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

extern char** environ;

namespace kinora {
namespace {

absl::Status SystemError(std::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(std::string(what), ": ", std::strerror(error)));
}

// What the child does before exec, and what it is then.
class SpawnPlan {
 public:
  SpawnPlan(int lifeline, int secret, pid_t process_group) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, lifeline, ChildProcess::kLifelineFd);
    posix_spawn_file_actions_adddup2(&actions_, secret, ChildProcess::kSecretFd);
    // Whatever a library opened without O_CLOEXEC.
    posix_spawn_file_actions_addclosefrom_np(&actions_, ChildProcess::kSecretFd + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, process_group);
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

struct Pipe {
  FileDescriptor read_end, write_end;
};

// The read end stays clear of the descriptors that it may become: dup2 onto itself would leave it close-on-exec, and
// one dup2 must not close the other's source.
absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  const FileDescriptor low(ends[0]);
  FileDescriptor write_end(ends[1]);
  FileDescriptor read_end(fcntl(low.get(), F_DUPFD_CLOEXEC, ChildProcess::kSecretFd + 1));
  if (!read_end.ok()) return SystemError("pipe", errno);
  return Pipe{.read_end = std::move(read_end), .write_end = std::move(write_end)};
}

std::string DescribeEnd(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return absl::StrCat("exit status ", info.si_status);
  return absl::StrCat("killed by signal ", info.si_status, " (", strsignal(info.si_status), ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(const std::string& binary,
                                                                  const std::vector<std::string>& arguments,
                                                                  const std::string& secret, pid_t process_group) {
  KINORA_ASSIGN_OR_RETURN(Pipe lifeline, MakePipe());
  KINORA_ASSIGN_OR_RETURN(Pipe told, MakePipe());
  if (write(told.write_end.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    return SystemError("pipe", errno);
  }
  told.write_end = FileDescriptor();  // the child reads to the end

  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const SpawnPlan plan(lifeline.read_end.get(), told.read_end.get(), process_group);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, binary.c_str(), plan.actions(), plan.attributes(), argv.data(), environ);
  if (error != 0) return SystemError(binary, error);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, std::move(lifeline.write_end)));
}

ChildProcess::~ChildProcess() {
  {
    absl::MutexLock lock(&mu_);
    if (reaped_) return;
  }
  Kill();
  Wait();
}

std::string ChildProcess::Wait() {
  siginfo_t info{};
  while (waitid(P_PID, pid_, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  absl::MutexLock lock(&mu_);
  waitid(P_PID, pid_, &info, WEXITED);
  reaped_ = true;
  lifeline_ = FileDescriptor();
  return DescribeEnd(info);
}

void ChildProcess::CloseLifeline() {
  absl::MutexLock lock(&mu_);
  lifeline_ = FileDescriptor();
}

void ChildProcess::Kill() {
  absl::MutexLock lock(&mu_);
  if (!reaped_) kill(pid_, SIGKILL);
}

}  // namespace kinora
