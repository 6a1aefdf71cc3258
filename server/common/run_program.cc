#include "server/common/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/uninterrupted.h"

extern char** environ;

namespace kinora {
namespace {

// Reads a file from its beginning to its end.
std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  const auto read = [&] { return pread(fd, buffer, sizeof(buffer), static_cast<off_t>(text.size())); };
  for (ssize_t n; (n = Uninterrupted(read)) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

constexpr off_t kMostWritten = 16 << 20;   // bytes, per output
constexpr auto kDying = absl::Seconds(2);  // after SIGKILL; a disk that does not answer may hold a process for longer

bool IsTooLong(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && info.st_size > kMostWritten;
}

// Kills the process and waits for at most kDying. A process that ends later is not reaped here.
void Kill(pid_t pid) {
  Clock& steady = Clock::Steady();
  kill(pid, SIGKILL);
  const absl::Time deadline = steady.Now() + kDying;
  while (waitpid(pid, nullptr, WNOHANG) == 0 && steady.Now() < deadline) poll(nullptr, 0, 1);
}

// Returns false if the process was killed because it did not end in time or wrote too much.
absl::StatusOr<bool> AwaitEnd(pid_t pid, absl::Duration patience, int out, int err, int& status) {
  Clock& steady = Clock::Steady();
  const absl::Time deadline = steady.Now() + patience;
  pid_t ended = 0;
  for (int milliseconds = 1; (ended = waitpid(pid, &status, WNOHANG)) == 0 && steady.Now() < deadline;) {
    if (IsTooLong(out) || IsTooLong(err)) break;
    poll(nullptr, 0, milliseconds);
    milliseconds = std::min(2 * milliseconds, 50);
  }
  if (ended < 0) return absl::ErrnoToStatus(errno, "waiting for its end");
  if (ended == 0) Kill(pid);
  return ended == pid;
}

}  // namespace

absl::StatusOr<ProgramEnd> RunProgram(const std::string& binary, const std::vector<std::string>& arguments,
                                      absl::Duration patience) {
  // Memory files instead of pipes, so that nothing has to be read while the program runs.
  const FileDescriptor out(memfd_create("out", MFD_CLOEXEC)), err(memfd_create("err", MFD_CLOEXEC));
  if (out.get() < 0 || err.get() < 0) return absl::InternalError(absl::StrCat("memfd_create: ", std::strerror(errno)));
  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.get(), 2);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, binary.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::NotFoundError(absl::StrCat(binary, ": ", std::strerror(error)));
  int status = 0;
  const auto ended = AwaitEnd(pid, patience, out.get(), err.get(), status);
  if (!ended.ok()) return absl::Status(ended.status().code(), absl::StrCat(binary, ": ", ended.status().message()));
  if (IsTooLong(out.get()) || IsTooLong(err.get())) {
    return absl::ResourceExhaustedError(absl::StrCat(binary, ": wrote more than 16 MiB"));
  }
  return ProgramEnd{.ended = *ended,
                    .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                    .out = ReadAll(out.get()),
                    .err = ReadAll(err.get())};
}

std::string FolderOfThisProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string whole = length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
  const size_t slash = whole.rfind('/');
  return slash == std::string::npos ? "." : whole.substr(0, slash);
}

}  // namespace kinora
