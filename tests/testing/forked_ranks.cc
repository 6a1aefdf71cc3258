#include "tests/testing/forked_ranks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/processes/forked_ranks.h"

namespace kinora {
namespace {

absl::StatusOr<std::string> BeRank(int rank, Rendezvous& rendezvous, const ForkedRanks::Body& body) {
  alarm(480);
  absl::StatusOr<std::string> result = body(rank, rendezvous);
  if (testing::Test::HasFailure()) return absl::InternalError("an expectation of this rank failed");
  return result;
}

void KillIfStopped(pid_t pid) {
  siginfo_t seen{};
  if (waitid(P_PID, pid, &seen, WSTOPPED | WNOHANG) == 0 && seen.si_pid == pid) kill(pid, SIGKILL);
}

}  // namespace

std::vector<absl::StatusOr<std::string>> RunForked(int ranks, const ForkedRanks::Body& body) {
  constexpr absl::Duration kLook = absl::Milliseconds(100);
  const auto forked =
      ForkedRanks::Start(ranks, [&](int rank, Rendezvous& rendezvous) { return BeRank(rank, rendezvous, body); });
  KINORA_CHECK(forked.ok()) << forked.status();
  while (!(*forked)->all_ended()) {
    (*forked)->Wait(Clock::Steady().Now() + kLook);
    for (int rank = 0; rank < ranks; ++rank) {
      if (!(*forked)->ended(rank)) KillIfStopped((*forked)->pid(rank));
    }
  }
  std::vector<absl::StatusOr<std::string>> results;
  results.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) results.push_back((*forked)->Result(rank));
  return results;
}

}  // namespace kinora
