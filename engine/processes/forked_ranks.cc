#include "engine/processes/forked_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/base/uninterrupted.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/processes/process_mesh.h"

namespace kinora {
namespace {

// An answer: one character for the code, one for whether it is agreed, then the message or the result.
std::string ToAnswer(const absl::StatusOr<std::string>& result) {
  const std::string text = result.ok() ? *result : std::string(result.status().message());
  const char head[] = {static_cast<char>('A' + static_cast<int>(result.status().code())),
                       IsAgreed(result.status()) ? '=' : '!'};
  return std::string(head, sizeof head) + text;
}

absl::StatusOr<std::string> FromAnswer(const std::string& answer) {
  const auto code = static_cast<absl::StatusCode>(answer[0] - 'A');
  if (code == absl::StatusCode::kOk) return answer.substr(2);
  absl::Status status(code, answer.substr(2));
  return answer[1] == '=' ? Agreed(std::move(status)) : status;
}

void WriteAll(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = Uninterrupted([&] { return write(fd, bytes.data() + at, bytes.size() - at); });
    if (n < 0) return;
    at += n;
  }
}

[[noreturn]] void BeRank(int rank, pid_t parent, const FileDescriptor& answer, FileDescriptor rendezvous_end,
                         const ForkedRanks::Body& body) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent ended before the prctl
  SocketRendezvous rendezvous(std::move(rendezvous_end));
  std::optional<absl::StatusOr<std::string>> result;
  try {
    result = body(rank, rendezvous);
  } catch (const std::bad_alloc&) {
    result = absl::ResourceExhaustedError(absl::StrCat("rank ", rank, ": out of memory"));
  }
  WriteAll(answer.get(), ToAnswer(*result));
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForkedRanks>> ForkedRanks::Start(int ranks, const Body& body) {
  auto forked = std::make_unique<ForkedRanks>();
  KINORA_ASSIGN_OR_RETURN(forked->hub_, RendezvousHub::Open(ranks));
  std::fflush(nullptr);  // otherwise each process would write the buffered data
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("pipe: ", std::strerror(errno)));
    FileDescriptor read_end(ends[0]);
    const FileDescriptor write_end(ends[1]);
    const pid_t pid = fork();
    if (pid < 0) return absl::UnavailableError(absl::StrCat("fork: ", std::strerror(errno)));
    if (pid == 0) {
      FileDescriptor end(fcntl(forked->hub_->RankEnd(rank), F_DUPFD_CLOEXEC, 0));
      forked->hub_->CloseInRank();
      BeRank(rank, parent, write_end, std::move(end), body);
    }
    forked->ranks_.push_back({.pid = pid, .answer = std::move(read_end), .text = {}});
  }
  forked->hub_->Start();
  return forked;
}

ForkedRanks::~ForkedRanks() {
  for (const Rank& rank : ranks_) {
    if (rank.ended) continue;
    kill(rank.pid, SIGKILL);
    Uninterrupted([&] { return waitpid(rank.pid, nullptr, 0); });
  }
}

bool ForkedRanks::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

// The end of the answer means that the process has ended or is about to.
void ForkedRanks::Read(Rank& rank) {
  char block[65536];
  const ssize_t n = Uninterrupted([&] { return read(rank.answer.get(), block, sizeof block); });
  if (n > 0) {
    rank.text.append(block, n);
    return;
  }
  Uninterrupted([&] { return waitpid(rank.pid, &rank.wait_status, 0); });
  rank.ended = true;
  if (!Answered(rank)) hub_.reset();  // ends the other ranks' waits for it
}

bool ForkedRanks::Answered(const Rank& rank) { return WIFEXITED(rank.wait_status) && rank.text.size() >= 2; }

void ForkedRanks::Wait(absl::Time until) {
  std::vector<pollfd> watched;
  for (const Rank& rank : ranks_) watched.push_back({rank.ended ? -1 : rank.answer.get(), POLLIN, 0});
  const absl::Duration left = std::clamp(until - Clock::Steady().Now(), absl::ZeroDuration(), absl::Hours(1));
  if (poll(watched.data(), watched.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) <= 0) return;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (watched[i].revents != 0) Read(ranks_[i]);
  }
}

absl::StatusOr<std::string> ForkedRanks::Result(int rank) const {
  const Rank& ended = ranks_[rank];
  KINORA_CHECK(ended.ended) << "rank " << rank;
  if (Answered(ended)) return FromAnswer(ended.text);
  const std::string how = WIFSIGNALED(ended.wait_status)
                              ? absl::StrCat("killed by signal ", WTERMSIG(ended.wait_status))
                              : absl::StrCat("exit status ", WEXITSTATUS(ended.wait_status));
  return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", how));
}

absl::StatusOr<std::string> ForkedRanks::AwaitResult(int rank) {
  while (!ranks_[rank].ended) Wait(absl::InfiniteFuture());
  return Result(rank);
}

absl::Status RunProcessRanks(const MeshShape& shape, const std::string& device, const std::atomic<bool>& cancelled,
                             const std::function<absl::Status(const Mesh&)>& body) {
  constexpr absl::Duration kGrace = absl::Seconds(3), kLook = absl::Seconds(1);
  KINORA_RETURN_IF_ERROR(shape.Validate());
  const std::string key = DrawGroupKey();
  KINORA_ASSIGN_OR_RETURN(
      const auto forked,
      ForkedRanks::Start(shape.ranks(), [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
        AbortSignal lost;  // never raised: the parent kills this process instead
        const ProcessRank process{.rank = rank, .rendezvous = rendezvous, .lost = lost, .peer = {.key = key}};
        KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeProcessMesh(device, shape, process));
        const Mesh* const own = mesh.get();
        KINORA_RETURN_IF_ERROR(OnEveryRank({&own, 1}, body));
        return Tracing() ? StopTrack(TraceStart()) : "";
      }));
  bool told = false;
  absl::Time deadline = absl::InfiniteFuture();
  while (!forked->all_ended() && Clock::Steady().Now() < deadline) {
    // A signal may arrive just before the wait, so the wait is limited.
    forked->Wait(std::min(deadline, Clock::Steady().Now() + kLook));
    if (cancelled && !std::exchange(told, true)) kill(forked->pid(0), SIGTERM);
    for (int rank = 0; rank < shape.ranks() && deadline == absl::InfiniteFuture(); ++rank) {
      if (forked->ended(rank) && !IsAgreed(forked->Result(rank).status())) deadline = Clock::Steady().Now() + kGrace;
    }
  }
  std::vector<absl::Status> results;
  results.reserve(shape.ranks());
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const absl::StatusOr<std::string> result =
        forked->ended(rank) ? forked->Result(rank) : absl::AbortedError("another rank failed");
    if (result.ok()) AddTrack(*result);
    results.push_back(result.status());
  }
  return WithoutMark(CauseOf(results));
}

}  // namespace kinora
