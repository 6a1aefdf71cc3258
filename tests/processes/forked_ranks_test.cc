#include "engine/processes/forked_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "engine/parallel/agree.h"
#include "engine/tensor/cpu_stream.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

const std::atomic<bool> kNotCancelled = false;

// Sums a word over all ranks. Returns the error that a rank gets while it waits for another.
absl::Status Meet(const Mesh& mesh) {
  float word = 1;
  CpuStream stream;
  mesh.world().AllReduceSum(Tensor(DType::kF32, {1}, &word), stream);
  return stream.Synchronize();
}

TEST(RunProcessRanks, EveryRankRunsAndItsPlaceIsItsOwn) {
  EXPECT_THAT(RunProcessRanks({.guidance = 2, .tokens = 2}, "cpu", kNotCancelled,
                              [](const Mesh& mesh) {
                                const int rank = 2 * mesh.guidance().rank() + mesh.tokens().rank();
                                return rank == mesh.world().rank() ? Meet(mesh) : absl::InternalError("wrong place");
                              }),
              IsOk());
}

TEST(RunProcessRanks, TheCauseIsReportedAndNotWhatFollowedFromIt) {
  EXPECT_THAT(RunProcessRanks({.tokens = 4}, "cpu", kNotCancelled,
                              [](const Mesh& mesh) {
                                return mesh.world().rank() == 2 ? absl::DataLossError("a torn file") : Meet(mesh);
                              }),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a torn file")));
  EXPECT_THAT(RunProcessRanks({.tokens = 2}, "cpu", kNotCancelled,
                              [](const Mesh& mesh) {
                                if (mesh.world().rank() == 1) kill(getpid(), SIGKILL);
                                return Meet(mesh);
                              }),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1: killed by signal 9")));
}

TEST(RunProcessRanks, AnAgreedFailureIsRankZeros) {
  EXPECT_THAT(RunProcessRanks({.tokens = 2}, "cpu", kNotCancelled,
                              [](const Mesh& mesh) {
                                return Agreed(mesh.world().rank() == 0 ? absl::NotFoundError("no such clip")
                                                                       : absl::CancelledError("rank 0 ended the run"));
                              }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such clip")));
}

// Destroying ForkedRanks ends a rank that waits for a key that nobody publishes.
TEST(RunProcessRanks, ARankThatDoesNotEndByItselfIsEnded) {
  pid_t waits = 0;
  {
    const auto ranks = ForkedRanks::Start(1, [](int, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
      return rendezvous.Await(0, "never", absl::Hours(1));
    });
    ASSERT_THAT(ranks, IsOk());
    waits = (*ranks)->pid(0);
    EXPECT_EQ(kill(waits, 0), 0);
  }
  EXPECT_EQ(kill(waits, 0), -1);
}

}  // namespace
}  // namespace kinora
