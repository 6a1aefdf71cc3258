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
constexpr absl::Duration kTick = absl::Milliseconds(100);  // between two questions whether to go on, at most

absl::Status NotStarted(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat("kinora-decode: ", what, ": ", std::strerror(error)));
}

struct Pipe {
  FileDescriptor read_end, write_end;
};

// Both ends are clear of the numbers that they or the file get in the child: no dup2 there closes another's source.
absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NotStarted("pipe", errno);
  const FileDescriptor low_read(ends[0]), low_write(ends[1]);
  Pipe pipe{.read_end = FileDescriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, kFileFd + 1)),
            .write_end = FileDescriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, kFileFd + 1))};
  if (!pipe.read_end.ok() || !pipe.write_end.ok()) return NotStarted("pipe", errno);
  return pipe;
}

// Whether there is something to read, or its end, before `end`.
bool AwaitInput(int fd, absl::Time end) {
  while (true) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(end - absl::Now());
    const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1'000'000)));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

// The child, killed and waited for at the latest when this is destroyed.
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
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    char* const arguments[] = {const_cast<char*>(binary.c_str()), nullptr};
    char* const environment[] = {nullptr};  // no setting of a library, no secret
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
  // As waitpid's status; none: it does not end until then.
  std::optional<int> WaitUntil(absl::Time end) {
    const FileDescriptor ended(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (ended.ok() && !AwaitInput(ended.get(), end)) return std::nullopt;
    if (!ended.ok()) kill(pid_, SIGKILL);  // no such call here: then without a word on how it ended
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

absl::Status TookTooLong(const DecoderOptions& options) {
  return absl::InvalidArgumentError(absl::StrCat("not decoded within ", absl::FormatDuration(options.timeout)));
}

// Up to its end, or the first error in it.
absl::Status ReadReplies(int from, absl::Time end, const DecoderOptions& options, ReplyReader& reader) {
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const absl::Time tick = std::min(end, absl::Now() + kTick);
    if (!AwaitInput(from, tick)) {
      if (absl::Now() >= end) return TookTooLong(options);
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

// Why a child ended that did not answer to the end.
absl::Status EarlyEnd(int status, bool sandboxed) {
  if (!sandboxed) {  // nothing of the file has been read
    return absl::UnavailableError(
        absl::StrCat("kinora-decode: it does not start here: ", WIFSIGNALED(status) ? "signal " : "status ",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
  }
  if (!WIFSIGNALED(status)) {
    return absl::InvalidArgumentError(absl::StrCat("its decoder ended with status ", WEXITSTATUS(status)));
  }
  switch (WTERMSIG(status)) {
    case SIGSYS:
      return absl::InvalidArgumentError("its decoder was ended: it wanted what a decoder may not do");
    case SIGXCPU:
    case SIGKILL:
      return absl::InvalidArgumentError("its decoder was ended: it took too much time or memory");
    default:
      return absl::InvalidArgumentError(absl::StrCat("its decoder was ended by signal ", WTERMSIG(status)));
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
  // A pipe holds it, so this waits for nobody.
  if (write(in.write_end.get(), &request, sizeof(request)) != sizeof(request)) return NotStarted("pipe", errno);
  const FileDescriptor own(fcntl(file, F_DUPFD_CLOEXEC, kFileFd + 1));
  if (!own.ok()) return NotStarted("its file", errno);
  KINORA_ASSIGN_OR_RETURN(Child child, Child::Spawn(options.binary, in.read_end.get(), out.write_end.get(), own.get()));
  out.write_end = FileDescriptor();  // so that the child's is the last
  ReplyReader reader(request, std::move(sink));
  const absl::Time end = absl::Now() + options.timeout;
  KINORA_RETURN_IF_ERROR(OfInput(id, ReadReplies(out.read_end.get(), end, options, reader)));
  if (reader.done()) return absl::OkStatus();
  // One that was taken over may have closed its pipe and go on.
  const std::optional<int> status = child.WaitUntil(end);
  return OfInput(id, status ? EarlyEnd(*status, reader.sandboxed()) : TookTooLong(options));
}

}  // namespace kinora
