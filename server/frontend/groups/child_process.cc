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
#include "engine/base/uninterrupted.h"

extern char** environ;

namespace kinora {
namespace {

absl::Status SystemError(std::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(std::string(what), ": ", std::strerror(error)));
}

// The file actions and attributes for posix_spawn.
class SpawnPlan {
 public:
  SpawnPlan(const std::vector<FileDescriptor>& inherited, pid_t process_group) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    int next = ChildProcess::kLifelineFd;
    for (const FileDescriptor& one : inherited) posix_spawn_file_actions_adddup2(&actions_, one.get(), next++);
    // Closes descriptors that a library opened without O_CLOEXEC.
    posix_spawn_file_actions_addclosefrom_np(&actions_, next);
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

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  return Pipe{.read_end = FileDescriptor(ends[0]), .write_end = FileDescriptor(ends[1])};
}

// Copies what the child inherits to numbers above all those that it gets in the child: dup2 onto itself would leave a
// descriptor close-on-exec, and one dup2 could close another's source.
absl::StatusOr<std::vector<FileDescriptor>> AboveTargets(const std::vector<int>& inherited) {
  const int above = ChildProcess::kLifelineFd + static_cast<int>(inherited.size());
  std::vector<FileDescriptor> copies;
  for (const int fd : inherited) {
    const FileDescriptor& copy = copies.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, above));
    if (!copy.ok()) return SystemError("descriptors for a child", errno);
  }
  return copies;
}

// The environment without the keys of the bucket and the database, which are the frontend's alone.
std::vector<char*> EnvironmentOfChild() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("AWS_") && !text.starts_with("PGPASS")) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

std::string DescribeEnd(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return absl::StrCat("exit status ", info.si_status);
  return absl::StrCat("killed by signal ", info.si_status, " (", strsignal(info.si_status), ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(const std::string& binary,
                                                                  const std::vector<std::string>& arguments,
                                                                  const std::string& secret, pid_t process_group,
                                                                  const std::vector<int>& given) {
  KINORA_ASSIGN_OR_RETURN(Pipe lifeline, MakePipe());
  KINORA_ASSIGN_OR_RETURN(Pipe told, MakePipe());
  if (write(told.write_end.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    return SystemError("pipe", errno);
  }
  told.write_end = FileDescriptor();  // so that the child reads to the end of file

  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<int> inherited = {lifeline.read_end.get(), told.read_end.get()};
  inherited.insert(inherited.end(), given.begin(), given.end());
  KINORA_ASSIGN_OR_RETURN(const std::vector<FileDescriptor> copies, AboveTargets(inherited));
  const SpawnPlan plan(copies, process_group);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, binary.c_str(), plan.actions(), plan.attributes(), argv.data(), EnvironmentOfChild().data());
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
  Uninterrupted([&] { return waitid(P_PID, pid_, &info, WEXITED | WNOWAIT); });
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

void ChildProcess::Terminate() { Signal(SIGTERM); }
void ChildProcess::Kill() { Signal(SIGKILL); }

void ChildProcess::Signal(int signal) {
  absl::MutexLock lock(&mu_);
  if (!reaped_) kill(pid_, signal);
}

}  // namespace kinora
