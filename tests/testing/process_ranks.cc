#include "tests/testing/process_ranks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/processes/peer_links.h"
#include "engine/processes/socket_mesh.h"

namespace kinora {
namespace {

void WriteAll(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
    if (n <= 0) return;
    at += n;
  }
}

std::string ReadAll(int fd) {
  std::string bytes;
  char block[65536];
  for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;) bytes.append(block, n);
  return bytes;
}

}  // namespace

ProcessRanks::ProcessRanks(int ranks, const Body& body) {
  auto hub = RendezvousHub::Open(ranks);
  KINORA_CHECK(hub.ok()) << hub.status();
  hub_ = *std::move(hub);
  for (int rank = 0; rank < ranks; ++rank) {
    int pipe_ends[2];
    KINORA_CHECK_EQ(pipe(pipe_ends), 0);
    FileDescriptor out(pipe_ends[1]);
    results_.emplace_back(pipe_ends[0]);
    const pid_t pid = fork();
    KINORA_CHECK(pid >= 0);
    if (pid > 0) {
      pids_.push_back(pid);
      continue;
    }
    SocketRendezvous rendezvous{FileDescriptor(dup(hub_->RankEnd(rank)))};
    const absl::StatusOr<std::string> result = body(rank, rendezvous);
    // One character for the code, then the message or the result.
    const std::string text = result.ok() ? *result : std::string(result.status().message());
    WriteAll(out.get(), static_cast<char>('A' + static_cast<int>(result.status().code())) + text);
    _exit(0);
  }
  hub_->Start();
}

ProcessRanks::~ProcessRanks() {
  for (const pid_t pid : pids_) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

absl::StatusOr<std::string> ProcessRanks::Result(int rank) {
  const std::string text = ReadAll(results_[rank].get());
  int status = 0;
  waitpid(std::exchange(pids_[rank], 0), &status, 0);
  if (WIFSIGNALED(status)) return absl::UnavailableError(absl::StrCat("killed by signal ", WTERMSIG(status)));
  if (text.empty()) return absl::UnavailableError(absl::StrCat("exit status ", WEXITSTATUS(status)));
  const auto code = static_cast<absl::StatusCode>(text[0] - 'A');
  if (code == absl::StatusCode::kOk) return text.substr(1);
  return absl::Status(code, text.substr(1));
}

std::vector<std::string> RunSocketRanks(const MeshShape& shape,
                                        const std::function<absl::StatusOr<std::string>(const Mesh&)>& body) {
  const std::string key = DrawGroupKey();
  ProcessRanks ranks(shape.ranks(), [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(rank, {.key = key}, rendezvous));
    KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeSocketMesh(shape, rank, *links));
    return body(*mesh);
  });
  std::vector<std::string> results;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    absl::StatusOr<std::string> result = ranks.Result(rank);
    EXPECT_TRUE(result.ok()) << shape.ToString() << ", rank " << rank << ": " << result.status();
    results.push_back(result.value_or(""));
  }
  return results;
}

}  // namespace kinora
