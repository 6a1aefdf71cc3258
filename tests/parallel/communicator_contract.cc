#include "tests/parallel/communicator_contract.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <random>

#include "absl/status/status.h"

namespace kinora {
namespace {

using ::testing::Each;
using Floats = std::vector<float>;
using Results = std::vector<absl::StatusOr<std::string>>;

Floats Random(int64_t n, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(n);
  for (float& v : values)
    v = normal(generator) * std::exp(4 * normal(generator));  // many magnitudes, so that the order of a sum matters
  return values;
}

// Every byte differs between ranks.
template <typename T>
std::vector<T> Counted(int64_t n, int rank) {
  std::vector<T> values(n);
  auto* const bytes = reinterpret_cast<uint8_t*>(values.data());
  for (size_t i = 0; i < n * sizeof(T); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + rank * 31 + i / 251);
  return values;
}

std::vector<bf16> Rounded(const Floats& values) {
  std::vector<bf16> rounded;
  for (const float v : values) rounded.emplace_back(v);
  return rounded;
}

template <typename T>
Floats SumInRankOrder(const std::vector<std::vector<T>>& inputs) {
  Floats sum(inputs[0].size());
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<float>(inputs[0][i]);
    for (size_t rank = 1; rank < inputs.size(); ++rank) sum[i] += static_cast<float>(inputs[rank][i]);
  }
  return sum;
}

TEST_P(CommunicatorContract, AllReduceAddsInRankOrderOnEveryRank) {
  for (const int64_t n : {1, 15, 16, 17, 1000, 50000}) {
    std::vector<Floats> inputs;
    for (int rank = 0; rank < ranks(); ++rank) inputs.push_back(Random(n, rank));
    const Floats expected = SumInRankOrder(inputs);
    const Results sums = Run([&](const ContractRank& rank) {
      const Tensor x = rank.Put(inputs[rank.group().rank()]);
      rank.group().AllReduceSum(x, rank.stream());
      return Bytes(rank.Get<float>(x));
    });
    for (const auto& sum : sums) EXPECT_EQ(Values<float>(sum), expected) << n;
  }
}

TEST_P(CommunicatorContract, AllReduceOfBf16AddsInFloatAndRoundsOnce) {
  std::vector<std::vector<bf16>> inputs;
  for (int rank = 0; rank < ranks(); ++rank) inputs.push_back(Rounded(Random(777, rank)));
  std::vector<uint16_t> expected;
  for (const bf16 sum : Rounded(SumInRankOrder(inputs))) expected.push_back(sum.bits);
  const Results sums = Run([&](const ContractRank& rank) {
    const Tensor x = rank.Put(inputs[rank.group().rank()]);
    rank.group().AllReduceSum(x, rank.stream());
    return Bytes(rank.Get<bf16>(x));
  });
  for (const auto& sum : sums) EXPECT_EQ(Values<uint16_t>(sum), expected);
}

// For one element type, with lengths that are not multiples of anything.
template <typename T>
void ExpectMovesWhatItIsGiven(const RanksKind& kind, int ranks) {
  constexpr int64_t kEach = 37;
  const int64_t all = kEach * ranks;
  const Results results = kind.run({.tokens = ranks}, [&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    Communicator& group = rank.group();
    const int me = group.rank();
    const Tensor local = rank.Put(Counted<T>(kEach, me)), parts = rank.Put(Counted<T>(all, me));
    const Tensor joined = rank.Put(Counted<T>(all, me)), exchanged = rank.Reserve(DTypeOf<T>::value, all);
    const Tensor in_batches = rank.Reserve(DTypeOf<T>::value, all);
    const Tensor in_place = rank.Put(Counted<T>(all, me)), from_last = rank.Put(Counted<T>(kEach, me));
    group.AllGather(local, joined, rank.stream());
    group.AllGather(in_place.Rows(kEach * me, kEach * (me + 1)), in_place, rank.stream());
    group.AllToAll(parts, exchanged, 1, rank.stream());
    group.AllToAll(parts, in_batches, kEach, rank.stream());
    group.Broadcast(group.size() - 1, from_last, rank.stream());
    std::string bytes;
    for (const Tensor& x : {joined, in_place, exchanged, in_batches, from_last}) {
      KINORA_ASSIGN_OR_RETURN(const std::string some, Bytes(rank.Get<T>(x)));
      bytes += some;
    }
    return bytes;
  });
  const auto append = [](std::vector<T>& to, const std::vector<T>& from, int64_t begin) {
    to.insert(to.end(), from.begin() + begin, from.begin() + begin + kEach);
  };
  for (int me = 0; me < ranks; ++me) {
    std::vector<T> expected;
    for (int r = 0; r < ranks; ++r) append(expected, Counted<T>(kEach, r), 0);
    for (int r = 0; r < ranks; ++r) append(expected, Counted<T>(all, r), kEach * r);
    for (int r = 0; r < ranks; ++r) append(expected, Counted<T>(all, r), kEach * me);
    for (int batch = 0; batch < kEach; ++batch) {
      for (int r = 0; r < ranks; ++r) expected.push_back(Counted<T>(all, r)[batch * ranks + me]);
    }
    append(expected, Counted<T>(kEach, ranks - 1), 0);
    const std::vector<uint8_t> bytes = Values<uint8_t>(results[me]);
    ASSERT_EQ(bytes.size(), expected.size() * sizeof(T)) << me;
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0) << me;
  }
}

TEST_P(CommunicatorContract, GathersExchangesAndBroadcastsOfF32) { ExpectMovesWhatItIsGiven<float>(kind(), ranks()); }
TEST_P(CommunicatorContract, GathersExchangesAndBroadcastsOfBf16) { ExpectMovesWhatItIsGiven<bf16>(kind(), ranks()); }
TEST_P(CommunicatorContract, GathersExchangesAndBroadcastsOfI64) { ExpectMovesWhatItIsGiven<int64_t>(kind(), ranks()); }
TEST_P(CommunicatorContract, GathersExchangesAndBroadcastsOfU8) { ExpectMovesWhatItIsGiven<uint8_t>(kind(), ranks()); }

// Parts of different lengths, one of them empty.
TEST_P(CommunicatorContract, GatherToGivesTheRootEveryPartInRankOrderAndTheOthersNothing) {
  const int root = ranks() - 1;
  std::vector<int64_t> counts;
  Floats expected;
  for (int rank = 0; rank < ranks(); ++rank) {
    counts.push_back(rank == 1 && ranks() > 2 ? 0 : 2 * rank + 1);
    for (int64_t i = 0; i < counts.back(); ++i) expected.push_back(rank + 0.125f * static_cast<float>(i));
  }
  const Results received = Run([&](const ContractRank& rank) {
    const int me = rank.group().rank();
    Floats values;
    for (int64_t i = 0; i < counts[me]; ++i) values.push_back(me + 0.125f * static_cast<float>(i));
    const Tensor local = rank.Put(values), all = rank.Put(Floats(expected.size(), -1.f));
    rank.group().GatherTo(root, counts, local, me == root ? all : Tensor(), rank.stream());
    const CollectiveCount& count = rank.group().counts()[static_cast<int>(Collective::kGatherTo)];
    EXPECT_EQ(count.calls, 1);
    EXPECT_EQ(count.bytes, me == root ? 0 : counts[me] * 4);
    return Bytes(rank.Get<float>(all));
  });
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(Values<float>(received[rank]), rank == root ? expected : Floats(expected.size(), -1.f)) << rank;
  }
}

// Larger than any chunk that two ranks exchange at a time.
TEST_P(CommunicatorContract, LargeTensorsComeWhole) {
  constexpr int64_t kElements = 300'007;
  const Results results = Run([&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const int me = rank.group().rank(), size = rank.group().size();
    const Tensor x = rank.Put(Floats(kElements, static_cast<float>(me + 1)));
    const Tensor all = rank.Reserve(DType::kF32, kElements * size);
    rank.group().AllGather(x, all, rank.stream());
    rank.group().AllReduceSum(x, rank.stream());
    KINORA_ASSIGN_OR_RETURN(const Floats sums, rank.Get<float>(x));
    KINORA_ASSIGN_OR_RETURN(const Floats gathered, rank.Get<float>(all));
    EXPECT_THAT(sums, Each(static_cast<float>(size * (size + 1) / 2)));
    for (int64_t i = 0; i < kElements * size; ++i) {
      if (gathered[i] != static_cast<float>(i / kElements + 1)) return absl::DataLossError(std::to_string(i));
    }
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

TEST_P(CommunicatorContract, CapturedCollectivesReplayOnNewValuesAndCountEachReplayOnce) {
  const Results results = Run([&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    Communicator& group = rank.group();
    const auto calls = [&](Collective op) { return group.counts()[static_cast<int>(op)].calls; };
    const Tensor value = rank.Put(Floats(3, 0.f)), all = rank.Reserve(DType::kF32, 3 * group.size());
    group.Broadcast(0, value, rank.stream());  // as a step runs once before it is captured
    KINORA_RETURN_IF_ERROR(rank.stream().Synchronize());
    KINORA_ASSIGN_OR_RETURN(const auto graph, rank.stream().Capture([&] {
      group.AllReduceSum(value, rank.stream());
      group.AllGather(value, all, rank.stream());
    }));
    EXPECT_EQ(calls(Collective::kAllReduceSum), 0);
    for (int round = 1; round <= 3; ++round) {
      const Floats now(3, static_cast<float>(round));
      rank.stream().CopyFromHost(now.data(), value);
      graph->Replay();
      KINORA_ASSIGN_OR_RETURN(const Floats gathered, rank.Get<float>(all));
      EXPECT_THAT(gathered, Each(static_cast<float>(round * group.size())));
      EXPECT_EQ(calls(Collective::kAllReduceSum), round);
      EXPECT_EQ(calls(Collective::kAllGather), round);
    }
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

// Hundreds of calls without a pause, to detect a rank that runs ahead of the others.
TEST_P(CommunicatorContract, ManyCallsInARowKeepApart) {
  constexpr int kCalls = 100;
  const Results results = Run([&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    Communicator& group = rank.group();
    const int size = group.size();
    const Tensor value = rank.Reserve(DType::kF32, 5), log = rank.Reserve(DType::kF32, 5 * size * kCalls);
    for (int i = 0; i < kCalls; ++i) {
      const Floats now(5, static_cast<float>(group.rank() + i));
      rank.stream().CopyFromHost(now.data(), value);
      group.AllGather(value, log.Rows(5 * size * i, 5 * size * (i + 1)), rank.stream());
      group.AllReduceSum(value, rank.stream());
      group.Broadcast(i % size, value, rank.stream());
    }
    KINORA_ASSIGN_OR_RETURN(const Floats gathered, rank.Get<float>(log));
    for (int i = 0; i < kCalls * size * 5; ++i) {
      const auto expected = static_cast<float>(i / (5 * size) + i / 5 % size);
      if (gathered[i] != expected) return absl::DataLossError(std::to_string(i));
    }
    KINORA_ASSIGN_OR_RETURN(const Floats last, rank.Get<float>(value));
    EXPECT_THAT(last, Each(static_cast<float>(size * (kCalls - 1) + size * (size - 1) / 2)));
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

TEST_P(CommunicatorContract, TwoGroupsAndTheWorldAtOnce) {
  const MeshShape shape = {.guidance = 2, .tokens = ranks() / 2};
  const Results results = kind().run(shape, [&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Mesh& mesh = rank.mesh();
    const auto me = static_cast<float>(mesh.world().rank());
    const Tensor value = rank.Put(Floats(100, me)), all = rank.Reserve(DType::kF32, 100 * mesh.tokens().size());
    const Tensor pair = rank.Reserve(DType::kF32, 200), world = rank.Put(Floats(1, me));
    mesh.tokens().AllGather(value, all, rank.stream());
    mesh.guidance().AllGather(value, pair, rank.stream());
    mesh.world().AllReduceSum(world, rank.stream());
    KINORA_ASSIGN_OR_RETURN(const Floats tokens, rank.Get<float>(all));
    KINORA_ASSIGN_OR_RETURN(const Floats guidance, rank.Get<float>(pair));
    KINORA_ASSIGN_OR_RETURN(const Floats sum, rank.Get<float>(world));
    const int size = mesh.tokens().size(), first = mesh.guidance().rank() * size;
    for (int i = 0; i < 100 * size; ++i) EXPECT_EQ(tokens[i], static_cast<float>(first + i / 100));
    for (int i = 0; i < 200; ++i) EXPECT_EQ(guidance[i], static_cast<float>(mesh.tokens().rank() + i / 100 * size));
    EXPECT_EQ(sum[0], static_cast<float>(ranks() * (ranks() - 1) / 2));
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

TEST_P(CommunicatorContract, AbortEndsRanksThatWaitAndAllThatComesLater) {
  const Results results = Run([&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor value = rank.Put(Floats(8, 1.f));
    KINORA_RETURN_IF_ERROR(rank.stream().Synchronize());
    if (rank.group().rank() == 1) {
      rank.group().Abort();  // instead of arriving
    } else {
      rank.group().AllReduceSum(value, rank.stream());
      const absl::Status waiting = rank.stream().Synchronize();
      EXPECT_TRUE(absl::IsAborted(waiting)) << waiting;
    }
    rank.group().Broadcast(0, value, rank.stream());
    return rank.stream().Synchronize();
  });
  for (const auto& result : results) EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
}

TEST_P(CommunicatorContract, AReplayedCollectiveFailsAfterAnAbortAndTheRestOfTheGraphDoesNotRun) {
  const Results results = Run([&](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor value = rank.Put(Floats(2, 1.f)), copy = rank.Put(Floats(2, 0.f));
    rank.group().Broadcast(0, value, rank.stream());
    KINORA_RETURN_IF_ERROR(rank.stream().Synchronize());
    KINORA_ASSIGN_OR_RETURN(const auto graph, rank.stream().Capture([&] {
      rank.group().AllReduceSum(value, rank.stream());
      rank.stream().Copy(value, copy);
    }));
    rank.group().Abort();
    graph->Replay();
    const absl::Status failed = rank.stream().Synchronize();
    EXPECT_TRUE(absl::IsAborted(failed)) << failed;
    return failed;
  });
  for (const auto& result : results) EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
}

// Runs collectives until one fails. There is no limit, since some rank must end them.
absl::StatusOr<std::string> TrafficWithoutEnd(const ContractRank& rank, const std::function<absl::Status(int)>& each) {
  const Tensor value = rank.Put(Floats(200, 1.f)), all = rank.Reserve(DType::kF32, 200 * rank.group().size());
  for (int call = 0;; ++call) {
    rank.group().AllGather(value, all, rank.stream());
    rank.group().AllReduceSum(value, rank.stream());
    KINORA_RETURN_IF_ERROR(rank.stream().Synchronize());
    KINORA_RETURN_IF_ERROR(each(call));
  }
}

// If one rank fails, the others end with Aborted, wherever they are.
TEST_P(CommunicatorContract, ARankThatFailsInTheMiddleOfTrafficEndsAllOthers) {
  const Results results = Run([&](const ContractRank& rank) {
    return TrafficWithoutEnd(rank, [&](int call) {
      return call == 5 && rank.group().rank() == 1 ? absl::DataLossError("rank lost") : absl::OkStatus();
    });
  });
  for (int rank = 0; rank < ranks(); ++rank) {
    const absl::Status& status = results[rank].status();
    EXPECT_TRUE(rank == 1 ? absl::IsDataLoss(status) : absl::IsAborted(status)) << rank << ": " << status;
  }
}

void ExpectASignalEndsAllOthers(const RanksKind& kind, int ranks, int signal) {
  const Results results = kind.run({.tokens = ranks}, [&](const ContractRank& rank) {
    return TrafficWithoutEnd(rank, [&](int call) {
      if (call == 5 && rank.group().rank() == 1) kill(getpid(), signal);
      return absl::OkStatus();
    });
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const absl::Status& status = results[rank].status();
    EXPECT_TRUE(rank == 1 ? absl::IsUnavailable(status) : absl::IsAborted(status)) << rank << ": " << status;
  }
}

TEST_P(CommunicatorContract, APeerThatDiesEndsTheOthers) {
  if (!kind().processes) GTEST_SKIP() << "threads die together";
  ExpectASignalEndsAllOthers(kind(), ranks(), SIGKILL);
}

TEST_P(CommunicatorContract, APeerThatStallsEndsTheOthers) {
  if (!kind().processes) GTEST_SKIP() << "threads stop together";
  ExpectASignalEndsAllOthers(kind(), ranks(), SIGSTOP);
}

}  // namespace
}  // namespace kinora
