#include "engine/processes/socket_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <random>

#include "engine/base/status_macros.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/processes/peer_links.h"
#include "engine/processes/socket_mesh.h"
#include "tests/parallel/delayed_rank.h"
#include "tests/testing/allocations.h"
#include "tests/testing/forked_ranks.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

Tensor View(Floats& values) { return Tensor(DType::kF32, {static_cast<int64_t>(values.size())}, values.data()); }
std::string BytesOf(const Floats& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Floats Random(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(n);
  for (float& v : values) v = normal(generator) * std::exp(4 * normal(generator));  // the order of a sum matters
  return values;
}

absl::StatusOr<std::unique_ptr<Mesh>> Join(const MeshShape& shape, int rank, const std::string& key,
                                           Rendezvous& rendezvous) {
  KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(rank, {.key = key}, rendezvous));
  return MakeSocketMesh(shape, rank, *links);
}

// Returns the body's result on each rank of a mesh of sockets, in rank order. The test fails if a rank fails.
std::vector<std::string> RunSocketRanks(const MeshShape& shape,
                                        const std::function<absl::StatusOr<std::string>(const Mesh&)>& body) {
  const std::string key = DrawGroupKey();
  std::vector<std::string> made;
  for (const auto& result :
       RunForked(shape.ranks(), [&](int rank, Rendezvous&rendezvous) -> absl::StatusOr<std::string> {
         KINORA_ASSIGN_OR_RETURN(const auto mesh, Join(shape, rank, key, rendezvous));
         return body(*mesh);
       })) {
    EXPECT_THAT(result, IsOk()) << shape.ToString() << ", rank " << made.size();
    made.push_back(result.value_or(""));
  }
  return made;
}

// Runs every collective of every group of the mesh in sequence and returns all results.
absl::StatusOr<std::string> EveryCollective(const Mesh& mesh) {
  std::string out;
  CpuStream stream;
  uint32_t seed = mesh.world().rank();
  for (Communicator* group : {&mesh.tensor(), &mesh.tokens(), &mesh.guidance(), &mesh.world()}) {
    const int64_t ranks = group->size();
    for (const int64_t n :
         {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{1000}, ranks == 2 ? int64_t{300001} : int64_t{3001}}) {
      Floats x = Random(n, ++seed), all(ranks * n), parts = Random(ranks * n, ++seed), received(ranks * n);
      std::vector<bf16> half(x.begin(), x.end());
      group->AllGather(View(x), View(all), stream);
      group->AllToAll(View(parts), View(received), 1, stream);
      group->AllReduceSum(View(x), stream);
      group->AllReduceSum(Tensor(DType::kBF16, {n}, half.data()), stream);
      Floats word = Random(3, ++seed);
      group->Broadcast(static_cast<int>(n % ranks), View(word), stream);
      std::vector<int64_t> counts;
      for (int64_t rank = 0; rank < ranks; ++rank) counts.push_back(rank == 1 ? 0 : n + rank);
      Floats local = Random(counts[group->rank()], ++seed), gathered(ranks * (n + ranks));
      int64_t sum = 0;
      for (const int64_t count : counts) sum += count;
      gathered.resize(sum);
      const int root = static_cast<int>((n + 1) % ranks);
      group->GatherTo(root, counts, View(local), group->rank() == root ? View(gathered) : Tensor(), stream);
      KINORA_RETURN_IF_ERROR(stream.Synchronize());
      out += BytesOf(all) + BytesOf(received) + BytesOf(x) + BytesOf(word) + BytesOf(gathered);
      out.append(reinterpret_cast<const char*>(half.data()), half.size() * sizeof(bf16));
    }
  }
  return out;
}

TEST(SocketCommunicator, EveryCollectiveOfEveryGroupHasTheBitsOfRanksThatAreThreads) {
  for (const MeshShape& shape :
       {MeshShape{.tokens = 2}, MeshShape{.guidance = 2, .tokens = 2, .tensor = 2}, MeshShape{.tokens = 4},
        MeshShape{.guidance = 4, .tensor = 2}, MeshShape{.tensor = 3}}) {
    const std::vector<std::string> processes = RunSocketRanks(shape, EveryCollective);
    const std::vector<std::string> threads = RunRanks<std::string>(shape, EveryCollective);
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      EXPECT_TRUE(processes[rank] == threads[rank]) << shape.ToString() << ", rank " << rank;
    }
  }
}

TEST(SocketCommunicator, CapturedCollectivesReplayOnNewValuesAndNothingIsAllocated) {
  const auto results = RunSocketRanks({.tokens = 2}, [](const Mesh& mesh) -> absl::StatusOr<std::string> {
    Floats value(3), all(6);
    CpuStream stream;
    CallCounter counter;
    mesh.Observe(counter, Clock::Real());
    KINORA_ASSIGN_OR_RETURN(const auto graph, stream.Capture([&] {
      mesh.tokens().AllReduceSum(View(value), stream);
      mesh.tokens().AllGather(View(value), View(all), stream);
    }));
    std::string wrong;
    const int64_t before = AllocationsOfThisThread();
    for (int round = 1; round <= 300; ++round) {
      value.assign(3, static_cast<float>(round));
      graph->Replay();
      for (const float v : all) wrong += v == static_cast<float>(2 * round) ? "" : "!";
    }
    if (AllocationsOfThisThread() != before) wrong += "allocated";
    if (counter.calls != 600) wrong += "a replay was not heard of";
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
    return wrong;
  });
  EXPECT_THAT(results, Each(""));
}

TEST(SocketCommunicator, ALateRankIsSeenByTheOtherInTheWaitOfThatCollectiveAndInNoOther) {
  DelayedRank delayed;
  EXPECT_THAT(RunSocketRanks({.tokens = 2}, [&](const Mesh& mesh) { return delayed.Run(mesh); }), Each(""));
}

// Runs collectives until one fails.
absl::StatusOr<std::string> UntilItFails(const Mesh& mesh, int most = 1 << 30) {
  Floats value(5000), all(5000 * mesh.world().size());
  CpuStream stream;
  for (int i = 0; i < most; ++i) {
    mesh.world().AllReduceSum(View(value), stream);
    mesh.world().AllGather(View(value), View(all), stream);
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
  }
  return "done";
}

TEST(SocketCommunicator, ARankThatIsKilledInTheMiddleOfTrafficEndsTheOthers) {
  const std::string key = DrawGroupKey();
  for (int round = 0; round < 5; ++round) {
    const auto ranks = *ForkedRanks::Start(4, [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
      KINORA_ASSIGN_OR_RETURN(const auto mesh, Join({.tokens = 4}, rank, key, rendezvous));
      if (rank == 2) {
        KINORA_RETURN_IF_ERROR(UntilItFails(*mesh, 1 + 10 * round).status());
        kill(getpid(), SIGKILL);
      }
      return UntilItFails(*mesh);
    });
    EXPECT_THAT(ranks->AwaitResult(2), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("killed by signal 9")));
    for (const int rank : {0, 1, 3})
      EXPECT_THAT(ranks->AwaitResult(rank), StatusIs(absl::StatusCode::kAborted, HasSubstr("")));
  }
}

// Other ranks wait for a stopped rank until the group is aborted.
TEST(SocketCommunicator, ARankThatStallsIsWaitedForAndAnAbortEndsIt) {
  const std::string key = DrawGroupKey();
  const auto ranks = *ForkedRanks::Start(2, [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const auto mesh, Join({.tokens = 2}, rank, key, rendezvous));
    KINORA_RETURN_IF_ERROR(UntilItFails(*mesh, 3).status());
    if (rank == 1) {
      rendezvous.Publish("stalls", "");
      (void)rendezvous.Await(0, "never", absl::Hours(1));
    }
    (void)rendezvous.Await(1, "stalls", absl::Seconds(60));
    std::thread abort([&] { mesh->Abort(); });  // before or during the collective
    absl::StatusOr<std::string> result = UntilItFails(*mesh);
    abort.join();
    return result;
  });
  EXPECT_THAT(ranks->AwaitResult(0), StatusIs(absl::StatusCode::kAborted, HasSubstr("aborted")));
}

TEST(SocketCommunicator, RanksThatAskForDifferentThingsAllFailAndOneAtLeastSaysWhat) {
  const std::string key = DrawGroupKey();
  const auto ranks = *ForkedRanks::Start(2, [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const auto mesh, Join({.tokens = 2}, rank, key, rendezvous));
    Floats value(4, 1.f);
    CpuStream stream;
    if (rank == 0) {
      mesh->world().AllReduceSum(View(value), stream);
    } else {
      mesh->world().Broadcast(0, View(value), stream);
    }
    return stream.Synchronize();
  });
  const absl::Status zero = ranks->AwaitResult(0).status(), one = ranks->AwaitResult(1).status();
  EXPECT_FALSE(zero.ok());
  EXPECT_FALSE(one.ok());
  EXPECT_TRUE(absl::IsInternal(zero) || absl::IsInternal(one)) << zero << one;
  const std::string said = absl::IsInternal(zero) ? zero.ToString() : one.ToString();
  EXPECT_THAT(said, HasSubstr("all_reduce_sum"));
  EXPECT_THAT(said, HasSubstr("broadcast"));
}

// Two meshes over the same processes, used by two threads concurrently.
TEST(SocketCommunicator, TwoGroupsAtOnceKeepApart) {
  const std::string keys[] = {DrawGroupKey(), DrawGroupKey()};
  const auto ranks = *ForkedRanks::Start(2, [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(rank, {.key = keys[0]}, rendezvous));
    const std::vector<int> members = {0, 1};
    std::vector<std::unique_ptr<SocketCommunicator>> groups;
    for (const char* name : {"one", "two"}) {
      KINORA_ASSIGN_OR_RETURN(std::vector<FileDescriptor> connections, links->Connect(name, members));
      groups.push_back(std::make_unique<SocketCommunicator>(rank, std::move(connections)));
    }
    std::string wrong[2];
    const auto use = [&](int which) {
      CpuStream stream;
      for (int i = 0; i < 500; ++i) {
        Floats value(100, static_cast<float>(i + which));
        groups[which]->AllReduceSum(View(value), stream);
        if (!stream.Synchronize().ok() || value[99] != static_cast<float>(2 * (i + which))) wrong[which] = "wrong";
      }
    };
    std::thread other(use, 1);
    use(0);
    other.join();
    return wrong[0] + wrong[1];
  });
  EXPECT_THAT(ranks->AwaitResult(0), IsOkAndHolds(""));
  EXPECT_THAT(ranks->AwaitResult(1), IsOkAndHolds(""));
}

}  // namespace
}  // namespace kinora
