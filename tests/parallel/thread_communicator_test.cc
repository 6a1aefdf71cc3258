#include "engine/parallel/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "tests/testing/allocations.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

Floats Random(int64_t n, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(n);
  for (float& v : values)
    v = normal(generator) * std::exp(4 * normal(generator));  // many magnitudes: the order of a sum shows
  return values;
}
Tensor View(Floats& values) { return Tensor(DType::kF32, {static_cast<int64_t>(values.size())}, values.data()); }

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Ranks, testing::Values(2, 4, 8));

TEST_P(Ranks, AllReduceAddsInRankOrderOnEveryRank) {
  const int ranks = GetParam();
  for (const int64_t n : {1, 15, 16, 17, 1000, 50000}) {
    Floats expected = Random(n, 0);
    for (int rank = 1; rank < ranks; ++rank) {
      const Floats other = Random(n, rank);
      for (int64_t i = 0; i < n; ++i) expected[i] += other[i];
    }
    const auto sums = RunRanks<Floats>({.tokens = ranks}, [&](const Mesh& mesh) -> absl::StatusOr<Floats> {
      Floats values = Random(n, mesh.tokens().rank());
      CpuStream stream;
      mesh.tokens().AllReduceSum(View(values), stream);
      if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
      return values;
    });
    EXPECT_THAT(sums, Each(expected)) << n;
  }
}

TEST_P(Ranks, AllReduceOfBf16AddsInFloatAndRoundsOnce) {
  const int ranks = GetParam();
  constexpr int64_t kElements = 777;
  const auto values = [](int rank) {
    std::vector<uint16_t> bits;
    for (float v : Random(kElements, rank)) bits.push_back(bf16(v).bits);
    return bits;
  };
  const auto as_float = [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); };
  std::vector<std::vector<uint16_t>> inputs;
  inputs.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(values(rank));
  std::vector<uint16_t> expected;
  for (int64_t i = 0; i < kElements; ++i) {
    float sum = 0;
    for (const auto& input : inputs) sum += as_float(input[i]);
    expected.push_back(bf16(sum).bits);
  }
  const auto sums = RunRanks<std::vector<uint16_t>>(
      {.tokens = ranks}, [&](const Mesh& mesh) -> absl::StatusOr<std::vector<uint16_t>> {
        std::vector<uint16_t> mine = inputs[mesh.tokens().rank()];
        CpuStream stream;
        mesh.tokens().AllReduceSum(Tensor(DType::kBF16, {kElements}, mine.data()), stream);
        if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
        return mine;
      });
  EXPECT_THAT(sums, Each(expected));
}

TEST_P(Ranks, AllGatherJoinsInRankOrderAlsoWhenTheInputIsPartOfTheOutput) {
  const int ranks = GetParam();
  for (const bool in_place : {false, true}) {
    const auto all = RunRanks<Floats>({.tokens = ranks}, [&](const Mesh& mesh) -> absl::StatusOr<Floats> {
      const int rank = mesh.tokens().rank();
      Floats local = {rank + 0.25f, rank + 0.5f, rank + 0.75f},
             joined(3 * ranks, std::numeric_limits<float>::quiet_NaN());
      std::copy(local.begin(), local.end(), joined.begin() + 3 * rank);
      CpuStream stream;
      mesh.tokens().AllGather(in_place ? View(joined).Rows(3 * rank, 3 * rank + 3) : View(local), View(joined), stream);
      if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
      return joined;
    });
    Floats expected;
    for (int rank = 0; rank < ranks; ++rank) {
      for (float part : {0.25f, 0.5f, 0.75f}) expected.push_back(rank + part);
    }
    EXPECT_THAT(all, Each(expected));
  }
}

TEST_P(Ranks, AllToAllSendsPartIToRankI) {
  const int ranks = GetParam();
  const auto received = RunRanks<Floats>({.tokens = ranks}, [&](const Mesh& mesh) -> absl::StatusOr<Floats> {
    Floats send, recv(2 * ranks, std::numeric_limits<float>::quiet_NaN());
    for (int to = 0; to < ranks; ++to) send.insert(send.end(), {mesh.tokens().rank() * 100.f + to, 0.5f});
    CpuStream stream;
    mesh.tokens().AllToAll(View(send), View(recv), stream);
    if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
    return recv;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    for (int from = 0; from < ranks; ++from) {
      EXPECT_EQ(received[rank][2 * from], from * 100.f + rank);
      EXPECT_EQ(received[rank][2 * from + 1], 0.5f);
    }
  }
}

TEST_P(Ranks, BroadcastGivesEveryRankTheRootsValues) {
  const int root = GetParam() - 1;
  const auto values = RunRanks<Floats>({.tokens = GetParam()}, [&](const Mesh& mesh) -> absl::StatusOr<Floats> {
    Floats mine(100, mesh.tokens().rank());
    CpuStream stream;
    mesh.tokens().Broadcast(root, View(mine), stream);
    if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
    return mine;
  });
  EXPECT_THAT(values, Each(Each(static_cast<float>(root))));
}

// Parts of different lengths, one of them empty.
TEST_P(Ranks, GatherToGivesTheRootEveryPartInRankOrderAndTheOthersNothing) {
  const int ranks = GetParam(), root = ranks - 1;
  std::vector<int64_t> counts;
  Floats expected;
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(rank == 1 ? 0 : 2 * rank + 1);
    for (int64_t i = 0; i < counts.back(); ++i) expected.push_back(rank + 0.125f * static_cast<float>(i));
  }
  const auto received = RunRanks<Floats>({.tokens = ranks}, [&](const Mesh& mesh) -> absl::StatusOr<Floats> {
    const int rank = mesh.tokens().rank();
    Floats local, all(expected.size(), -1.f);
    for (int64_t i = 0; i < counts[rank]; ++i) local.push_back(rank + 0.125f * static_cast<float>(i));
    CpuStream stream;
    mesh.tokens().GatherTo(root, counts, View(local), rank == root ? View(all) : Tensor(), stream);
    const CollectiveCount& count = mesh.tokens().counts()[static_cast<int>(Collective::kGatherTo)];
    EXPECT_EQ(count.calls, 1);
    EXPECT_EQ(count.bytes, rank == root ? 0 : counts[rank] * 4);
    if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
    return all;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(received[rank], rank == root ? expected : Floats(expected.size(), -1.f)) << rank;
  }
}

TEST(SingleCommunicator, GatherToCopies) {
  Floats local = {1.f, 2.f}, all(2);
  CpuStream stream;
  const int64_t counts[] = {2};
  Mesh::Single()->world().GatherTo(0, counts, View(local), View(all), stream);
  EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(all, local);
}

TEST_P(Ranks, CapturedCollectivesReplayOnNewValuesAndCountEachReplayOnce) {
  const absl::Status status = RunThreadRanks({.tokens = GetParam()}, [&](const Mesh& mesh) {
    Communicator& group = mesh.tokens();
    Floats value(3, std::numeric_limits<float>::quiet_NaN()), all(3 * group.size());
    CpuStream stream;
    auto graph = stream.Capture([&] {
      group.AllReduceSum(View(value), stream);
      group.AllGather(View(value), View(all), stream);
    });
    EXPECT_TRUE(graph.ok());
    EXPECT_EQ(group.counts()[static_cast<int>(Collective::kAllReduceSum)].calls, 0);
    for (int round = 1; round <= 3; ++round) {
      value.assign(3, static_cast<float>(round));
      (*graph)->Replay();
      EXPECT_THAT(all, Each(static_cast<float>(round * group.size())));
      EXPECT_EQ(group.counts()[static_cast<int>(Collective::kAllReduceSum)].calls, round);
      EXPECT_EQ(group.counts()[static_cast<int>(Collective::kAllGather)].calls, round);
    }
    return stream.Synchronize();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ThreadCommunicator, NothingIsAllocatedInACall) {
  const absl::Status status = RunThreadRanks({.tokens = 2}, [&](const Mesh& mesh) {
    Floats value(64, 1.f), other(64), all(128);
    const int64_t counts[] = {64, 64};
    CpuStream stream;
    const int64_t before = AllocationsOfThisThread();
    mesh.tokens().AllReduceSum(View(value), stream);
    mesh.tokens().AllGather(View(value), View(all), stream);
    mesh.tokens().AllToAll(View(value), View(other), stream);
    mesh.tokens().Broadcast(0, View(value), stream);
    mesh.tokens().GatherTo(0, counts, View(value), View(all), stream);
    EXPECT_EQ(AllocationsOfThisThread(), before);
    return stream.Synchronize();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Nine hundred calls without a pause, so that a rank that runs ahead of the barriers would be seen (and ThreadSanitizer
// would see it).
TEST(ThreadCommunicator, ManyCallsInARowKeepApart) {
  const absl::Status status = RunThreadRanks({.tokens = 4}, [&](const Mesh& mesh) {
    Floats value(5), all(20);
    CpuStream stream;
    for (int i = 0; i < 300; ++i) {
      value.assign(5, static_cast<float>(mesh.tokens().rank() + i));
      mesh.tokens().AllGather(View(value), View(all), stream);
      EXPECT_EQ(all[19], static_cast<float>(3 + i));
      mesh.tokens().AllReduceSum(View(value), stream);
      EXPECT_EQ(value[4], static_cast<float>(6 + 4 * i));
      mesh.tokens().Broadcast(i % 4, View(value), stream);
    }
    return stream.Synchronize();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ThreadCommunicator, AbortEndsARankThatWaitsAndAllThatComesLater) {
  const auto meshes = MakeThreadMeshes({.tokens = 2});
  ASSERT_TRUE(meshes.ok());
  std::atomic<bool> started = false;
  absl::Status waiting, later;
  std::thread rank0([&] {
    Floats value(8, 1.f);
    CpuStream stream;
    started = true;
    (*meshes)[0]->tokens().AllReduceSum(View(value), stream);  // rank 1 never comes
    waiting = stream.Synchronize();
    EXPECT_THAT(value, Each(1.f));
    (*meshes)[0]->tokens().Broadcast(0, View(value), stream);
    later = stream.Synchronize();
  });
  while (!started) std::this_thread::yield();
  (*meshes)[1]->tokens().Abort();
  rank0.join();
  EXPECT_TRUE(absl::IsAborted(waiting)) << waiting;
  EXPECT_TRUE(absl::IsAborted(later)) << later;
  Floats value(8, 1.f);
  CpuStream stream;
  (*meshes)[1]->tokens().AllReduceSum(View(value), stream);
  EXPECT_TRUE(absl::IsAborted(stream.Synchronize()));
}

TEST(ThreadCommunicator, AReplayedCollectiveFailsAfterAnAbortAndTheRestOfTheGraphDoesNotRun) {
  const auto meshes = MakeThreadMeshes({.tokens = 2});
  ASSERT_TRUE(meshes.ok());
  Floats value(2, 1.f), copy(2, 0.f);
  CpuStream stream;
  auto graph = stream.Capture([&] {
    (*meshes)[0]->tokens().AllReduceSum(View(value), stream);
    stream.Copy(View(value), View(copy));
  });
  ASSERT_TRUE(graph.ok());
  (*meshes)[1]->tokens().Abort();
  (*graph)->Replay();
  EXPECT_TRUE(absl::IsAborted(stream.Synchronize()));
  EXPECT_THAT(copy, Each(0.f));
}

// Abort at any moment of a stream of collectives: every rank ends with Aborted, none hangs, none reads memory that
// another has freed.
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
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;  // the cause, not the Aborted that followed from it
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
