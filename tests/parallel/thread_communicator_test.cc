#include "engine/parallel/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/parallel/communicator_contract.h"
#include "tests/parallel/delayed_rank.h"
#include "tests/testing/allocations.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

Tensor View(Floats& values) { return Tensor(DType::kF32, {static_cast<int64_t>(values.size())}, values.data()); }

RanksKind ThreadRanks() {
  return {"Threads", /*processes=*/false, [](const MeshShape& shape, const ContractBody& body) {
            std::vector<absl::StatusOr<std::string>> results(shape.ranks(), absl::UnknownError("did not run"));
            RunThreadRanks(shape, [&](const Mesh& mesh) {
              std::vector<Buffer> buffers;
              CpuStream stream;
              const ContractRank rank(mesh, stream, [&buffers](DType dtype, int64_t elements) {
                buffers.push_back(Buffer::Allocate(elements * DTypeSize(dtype) + 1).value());
                return buffers.back().View(dtype, {elements});
              });
              results[mesh.world().rank()] = body(rank);
              return results[mesh.world().rank()].status();
            }).IgnoreError();
            return results;
          }};
}
INSTANTIATE_TEST_SUITE_P(Of, CommunicatorContract,
                         testing::Combine(testing::Values(ThreadRanks()), testing::Values(2, 4, 8)), ContractName);

TEST(SingleCommunicator, GatherToCopies) {
  Floats local = {1.f, 2.f}, all(2);
  CpuStream stream;
  const int64_t counts[] = {2};
  Mesh::Single()->world().GatherTo(0, counts, View(local), View(all), stream);
  EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(all, local);
}

TEST(ThreadCommunicator, NothingIsAllocatedInACall) {
  const absl::Status status = RunThreadRanks({.tokens = 2}, [&](const Mesh& mesh) {
    Floats value(64, 1.f), other(64), all(128);
    const int64_t counts[] = {64, 64};
    CpuStream stream;
    CallCounter counter;
    mesh.Observe(counter, Clock::Real());
    const int64_t before = AllocationsOfThisThread();
    mesh.tokens().AllReduceSum(View(value), stream);
    mesh.tokens().AllGather(View(value), View(all), stream);
    mesh.tokens().AllToAll(View(value), View(other), 1, stream);
    mesh.tokens().Broadcast(0, View(value), stream);
    mesh.tokens().GatherTo(0, counts, View(value), View(all), stream);
    EXPECT_EQ(AllocationsOfThisThread(), before);
    EXPECT_EQ(counter.calls, 5);
    return stream.Synchronize();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ThreadCommunicator, ALateRankIsSeenByTheOtherInTheWaitOfThatCollectiveAndInNoOther) {
  DelayedRank delayed;
  const std::vector<std::string> wrong =
      RunRanks<std::string>({.tokens = 2}, [&](const Mesh& mesh) { return delayed.Run(mesh); });
  EXPECT_THAT(wrong, Each(""));
}

// Aborts at any moment during a stream of collectives: every rank ends with Aborted, none hangs, and none reads memory
// that another has freed.
TEST(ThreadCommunicator, AbortInTheMiddleOfTrafficEndsEveryRank) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> calls = 0;
    const absl::Status status = RunThreadRanks({.guidance = 2, .tokens = 4}, [&](const Mesh& mesh) -> absl::Status {
      while (true) {
        Floats value(200, 1.f), all(800);  // freed as soon as the call returns
        CpuStream stream;
        mesh.tokens().AllGather(View(value), View(all), stream);
        mesh.guidance().AllReduceSum(View(value), stream);
        if (++calls == 5 + 7 * round) return absl::DataLossError("rank lost");
        if (absl::Status failed = stream.Synchronize(); !failed.ok()) return failed;
      }
    });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;  // the cause, not the resulting Aborted
  }
}

TEST(ThreadCommunicator, RanksThatAskForDifferentThingsAllFailAndAreToldWhat) {
  const auto different = [](const Mesh& mesh) {
    Floats value(4, 1.f);
    CpuStream stream;
    if (mesh.tokens().rank() == 0) {
      mesh.tokens().AllReduceSum(View(value), stream);
    } else {
      mesh.tokens().Broadcast(0, View(value), stream);
    }
    return stream.Synchronize();
  };
  const absl::Status status = RunThreadRanks({.tokens = 2}, [&](const Mesh& mesh) {
    absl::Status mine = different(mesh);
    EXPECT_TRUE(absl::IsInternal(mine)) << mine;
    return mine;
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("all_reduce_sum"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("broadcast"));
}

}  // namespace
}  // namespace kinora
