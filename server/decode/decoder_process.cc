#include "server/decode/decoder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int kFileFd = 3;  // in the child
constexpr size_t kReadBytes = 256 << 10;
constexpr absl::Duration kTick = absl::Milliseconds(100);  // longest time between two calls of go_on
constexpr absl::Duration kStopped = absl::Seconds(5);      // a tick this long: this process was stopped

absl::Status NotStarted(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat("kinora-decode: ", what, ": ", std::strerror(error)));
}

struct Pipe {
  FileDescriptor read_end, write_end;
};

// The numbers of both ends are above those that the child's dup2 calls assign, so that none of these closes another's
// source.
absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NotStarted("pipe", errno);
  const FileDescriptor low_read(ends[0]), low_write(ends[1]);
  Pipe pipe{.read_end = FileDescriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, kFileFd + 1)),
            .write_end = FileDescriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, kFileFd + 1))};
  if (!pipe.read_end.ok() || !pipe.write_end.ok()) return NotStarted("pipe", errno);
  return pipe;
}

// A decoder's deadline, by a clock that continues while this process is stopped.
class Deadline {
 public:
  explicit Deadline(const DecoderOptions& options)
      : clock_(options.clock), timeout_(options.timeout), last_(clock_.Now()), end_(last_ + timeout_) {}

  // Waits for at most one tick. Returns whether `fd` is readable or at its end.
  bool AwaitInput(int fd) {
    const absl::Time now = clock_.Now();
    stopped_ = std::max(stopped_, now - last_);
    last_ = now;
    const absl::Duration left = std::clamp(end_ - now, absl::ZeroDuration(), kTick);
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))))) > 0;
  }
  bool over() const { return clock_.Now() >= end_; }
  absl::Status Error() const {
    const absl::Duration stopped = std::max(stopped_, clock_.Now() - last_);
    if (stopped < kStopped) {
      return absl::InvalidArgumentError(absl::StrCat("not decoded within ", absl::FormatDuration(timeout_)));
    }
    return absl::UnavailableError(absl::StrCat("kinora-decode: this process was stopped for ",
                                               absl::FormatDuration(absl::Trunc(stopped, absl::Seconds(1))), " of the ",
                                               absl::FormatDuration(timeout_), " that decoding may take"));
  }

 private:
  Clock& clock_;
  const absl::Duration timeout_;
  absl::Time last_;  // last call of AwaitInput
  const absl::Time end_;
  absl::Duration stopped_;  // the longest time between two calls
};

// The child process. The destructor kills it and waits for its end.
class Child {
 public:
  static absl::StatusOr<Child> Spawn(const std::string& binary, int in, int out, int file) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, file, kFileFd);
    posix_spawn_file_actions_addclosefrom_np(&actions, kFileFd + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // A signal that stops the worker's whole process group must not end the decoder of its last run. The decoder ends
    // with the worker in any case, by SIGKILL.
    sigset_t stops, all;
    sigemptyset(&stops);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&stops, signal);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &stops);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    char* const arguments[] = {const_cast<char*>(binary.c_str()), nullptr};
    char* const environment[] = {nullptr};  // no library settings, no secrets
    pid_t pid = 0;
    const int error = posix_spawn(&pid, binary.c_str(), &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return NotStarted(binary.c_str(), error);
    return Child(pid);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ~Child() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  // Returns waitpid's status, or nullopt if the child does not end before the deadline.
  std::optional<int> WaitUntil(Deadline& deadline) {
    const FileDescriptor ended(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    while (ended.ok() && !deadline.AwaitInput(ended.get())) {
      if (deadline.over()) return std::nullopt;
    }
    if (!ended.ok()) kill(pid_, SIGKILL);  // without pidfd_open there is no wait with a deadline
    return Wait();
  }
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

// Reads the answer to its end or to its first error.
absl::Status ReadReplies(int from, Deadline& deadline, const DecoderOptions& options, ReplyReader& reader) {
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const bool ready = deadline.AwaitInput(from);
    if (deadline.over()) return deadline.Error();
    if (!ready) {
      if (options.go_on) KINORA_RETURN_IF_ERROR(options.go_on());
      continue;
    }
    const ssize_t n = read(from, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return NotStarted("pipe", errno);
    if (n == 0) return absl::OkStatus();
    KINORA_RETURN_IF_ERROR(reader.Take(std::string_view(buffer.data(), n)));
    if (options.go_on) KINORA_RETURN_IF_ERROR(options.go_on());
  }
}

// Returns why a child ended without a complete answer.
absl::Status EarlyEnd(int status, bool sandboxed) {
  if (!sandboxed) {  // nothing of the file has been read
    return absl::UnavailableError(
        absl::StrCat("kinora-decode: failed to start on this machine: ", WIFSIGNALED(status) ? "signal " : "status ",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
  }
  if (!WIFSIGNALED(status)) {
    return absl::InvalidArgumentError(absl::StrCat("its decoder exited with status ", WEXITSTATUS(status)));
  }
  switch (WTERMSIG(status)) {
    case SIGSYS:
      return absl::InvalidArgumentError("its decoder was killed: it tried an operation that decoders may not perform");
    case SIGXCPU:
    case SIGKILL:
      return absl::InvalidArgumentError("its decoder was killed: it used too much time or memory");
    default:
      return absl::InvalidArgumentError(absl::StrCat("its decoder was killed by signal ", WTERMSIG(status)));
  }
}

absl::Status OfInput(const std::string& id, const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat("input ", id, ": ", std::string(status.message())));
}

}  // namespace

absl::Status DecodeInput(const DecoderOptions& options, const std::string& id, int file, const DecodeRequest& request,
                         DecodeSink sink) {
  KINORA_RETURN_IF_ERROR(CheckDecodeRequest(request));
  KINORA_ASSIGN_OR_RETURN(Pipe in, MakePipe());
  KINORA_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  // The request fits into the pipe's buffer, so this does not block.
  if (write(in.write_end.get(), &request, sizeof(request)) != sizeof(request)) return NotStarted("pipe", errno);
  const FileDescriptor own(fcntl(file, F_DUPFD_CLOEXEC, kFileFd + 1));
  if (!own.ok()) return NotStarted("its file", errno);
  KINORA_ASSIGN_OR_RETURN(Child child, Child::Spawn(options.binary, in.read_end.get(), out.write_end.get(), own.get()));
  out.write_end = FileDescriptor();  // so that only the child has a write end
  ReplyReader reader(request, std::move(sink));
  Deadline deadline(options);
  KINORA_RETURN_IF_ERROR(OfInput(id, ReadReplies(out.read_end.get(), deadline, options, reader)));
  if (reader.done()) return absl::OkStatus();
  // A compromised decoder may have closed its pipe and still run.
  const std::optional<int> status = child.WaitUntil(deadline);
  return OfInput(id, status ? EarlyEnd(*status, reader.sandboxed()) : deadline.Error());
}

}  // namespace kinora
