#include "engine/processes/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/ops/cuda/cuda_memory.h"
#include "engine/tensor/cpu_stream.h"
#include "tests/processes/nccl_ranks.h"
#include "tests/simt/control.h"
#include "tests/testing/forked_ranks.h"

namespace kinora {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Floats = std::vector<float>;
using Results = std::vector<absl::StatusOr<std::string>>;

INSTANTIATE_TEST_SUITE_P(Of, CommunicatorContract,
                         testing::Combine(testing::Values(NcclRanks()), testing::Values(2, 4, 8)), ContractName);

std::string Folder2_20() { return std::string(KINORA_SIMT_FOLDER) + "/nccl_2_20/libnccl.so.2"; }

Results RunNccl(const MeshShape& shape, const ContractBody& body, const NcclGroup::Options& options = {}) {
  return NcclRanks(options).run(shape, body);
}

template <typename F>
F* Control(const char* name) {
  return reinterpret_cast<F*>(NcclControl(name));
}

// NCCL before 2.28 has no all-to-all call.
TEST(NcclCommunicator, AnOlderLibraryExchangesBySendsAndReceives) {
  for (const int batches : {1, 2}) {
    const auto body = [batches](const ContractRank& rank) {
      Floats parts;
      for (int i = 0; i < 8; ++i) parts.push_back(rank.group().rank() * 100.f + i);
      const Tensor send = rank.Put(parts), recv = rank.Reserve(DType::kF32, 8);
      rank.group().AllToAll(send, recv, batches, rank.stream());
      return Bytes(rank.Get<float>(recv));
    };
    const Results now = RunNccl({.tokens = 4}, body), before = RunNccl({.tokens = 4}, body, {.library = Folder2_20()});
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(Values<float>(now[rank]), Values<float>(before[rank]));
      // What rank 3 sent this one in its last batch.
      EXPECT_EQ(Values<float>(now[rank])[7], 300.f + (batches == 1 ? 2 * rank + 1 : 4 + rank));
    }
  }
}

TEST(NcclCommunicator, AMeshEndsWithoutALeftover) {
  const Results results = RunForked(4, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream, CudaStream::Create());
    KINORA_ASSIGN_OR_RETURN(const Buffer buffer, AllocateOnDevice(1000, "a test"));
    for (const char* name : {"first", "second"}) {  // like one mesh for each way to divide a group
      KINORA_ASSIGN_OR_RETURN(auto mesh, MakeNcclMesh({.guidance = 2, .tokens = 2}, rank, rendezvous, {.name = name}));
      const auto alive = Control<int()>("kinora_nccl_alive");
      EXPECT_EQ(alive(), 3);  // the world and two axes
      mesh->tokens().Broadcast(0, buffer.View(DType::kF32, {250}), *stream);
      KINORA_RETURN_IF_ERROR(stream->Synchronize());
      mesh.reset();
      EXPECT_EQ(alive(), 0);
    }
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

// The device measures them once the rank has waited. NCCL does not report how much of that time was waiting for other
// ranks.
TEST(NcclCommunicator, CallsAreMeasuredInGraphsAndOutside) {
  struct Heard : CollectiveObserver {
    void OnCollective(const CollectiveCall& call) override {
      calls += call.axis == MeshAxis::kTokens && call.op == Collective::kAllReduceSum && call.seconds > 0 &&
               call.bytes == 40 && !call.wait_seconds.has_value();
      ++all;
    }
    int calls = 0, all = 0;
  };
  const Results results = RunForked(2, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream, CudaStream::Create());
    KINORA_ASSIGN_OR_RETURN(const Buffer buffer, AllocateOnDevice(40, "a test"));
    KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeNcclMesh({.tokens = 2}, rank, rendezvous));
    Heard heard;
    mesh->Observe(heard, Clock::Steady());
    const auto call = [&] { mesh->tokens().AllReduceSum(buffer.View(DType::kF32, {10}), *stream); };
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, stream->Capture([&] { call(), call(); }));
    for (int i = 0; i < 3; ++i) graph->Replay();
    call();
    EXPECT_EQ(heard.all, 0);
    KINORA_RETURN_IF_ERROR(stream->Synchronize());
    EXPECT_EQ(heard.calls, 7);
    EXPECT_EQ(heard.all, 7);
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

TEST(NcclCommunicator, AnAxisThatHoldsAllRanksIsTheWorld) {
  const Results results = RunNccl({.tokens = 2}, [](const ContractRank&) -> absl::StatusOr<std::string> {
    EXPECT_EQ(Control<int()>("kinora_nccl_alive")(), 1);
    return "";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

TEST(NcclCommunicator, ARankThatNeverComesIsWaitedForAsLongAsIsAllowed) {
  const Results results = RunForked(2, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    if (rank == 1) return "";
    return MakeNcclMesh({.tokens = 2}, rank, rendezvous, {.patience = absl::Milliseconds(200)}).status();
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(results[0].status())) << results[0].status();
  EXPECT_THAT(std::string(results[0].status().message()), HasSubstr("rank 0 of 2"));
}

TEST(NcclCommunicator, ARankThatCannotComeIsNotWaitedFor) {
  for (const int without : {0, 1}) {  // rank 0 creates the id
    const Results results = RunForked(2, [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
      const char* const library = rank == without ? "libno.so" : nccl::kLibrary;
      return MakeNcclMesh({.tokens = 2}, rank, rendezvous, {.library = library}).status();
    });
    EXPECT_TRUE(absl::IsFailedPrecondition(results[without].status())) << results[without].status();
    EXPECT_TRUE(absl::IsAborted(results[1 - without].status())) << results[1 - without].status();
    for (const auto& result : results) {
      EXPECT_THAT(std::string(result.status().message()), AllOf(HasSubstr("libno.so"), HasSubstr("LD_LIBRARY_PATH")));
    }
  }
}

// The watch thread sees a communicator's asynchronous error while its stream waits, and all ranks end.
TEST(NcclCommunicator, AnAsynchronousErrorOfOneRankEndsAll) {
  const Results results = RunNccl({.tokens = 4}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor x = rank.Put(Floats(10, 1.f));
    if (rank.group().rank() == 2) {
      Control<void(int, int)>("kinora_nccl_break")(static_cast<int>(nccl::Result::kRemoteError), 3);
    }
    for (int i = 0; i < 10; ++i) rank.group().AllReduceSum(x, rank.stream());
    return rank.stream().Synchronize();
  });
  for (const auto& result : results) {
    EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("remote process exited"));
  }
}

TEST(NcclCommunicator, ACallThatFailsFailsTheStreamAndEndsTheGroup) {
  const Results results = RunNccl({.tokens = 2}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor x = rank.Put(Floats(10, 1.f));
    if (rank.group().rank() == 1) {
      Control<void(const char*, int, int)>("kinora_nccl_fail")("ncclAllReduce", 2, 0);
    }
    rank.group().AllReduceSum(x, rank.stream());
    return rank.stream().Synchronize();
  });
  EXPECT_TRUE(absl::IsAborted(results[0].status())) << results[0].status();
  for (const auto& result : results) {
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("unhandled system error"));
  }
}

// Aborts from another thread while the stream waits in a graph. NCCL ends the communicator only after the graph, so the
// abort must not wait for it.
TEST(NcclCommunicator, AnAbortEndsAGraphThatWaits) {
  const Results results = RunNccl({.tokens = 2}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor x = rank.Put(Floats(10, 1.f));
    rank.group().AllReduceSum(x, rank.stream());
    KINORA_RETURN_IF_ERROR(rank.stream().Synchronize());
    KINORA_ASSIGN_OR_RETURN(const auto graph, rank.stream().Capture([&] {
      for (int i = 0; i < 3; ++i) rank.group().AllReduceSum(x, rank.stream());
    }));
    if (rank.group().rank() == 1) {  // never replays, and leaves once it sees the abort
      Tensor y = rank.Put(Floats(1, 1.f));
      absl::Status heard;
      while (heard.ok()) {
        rank.stream().CopyFromHost("four", y);
        heard = rank.stream().Synchronize();
      }
      return heard;
    }
    const auto waiting = Control<int()>("kinora_nccl_waiting");
    std::thread other([&] {
      while (waiting() == 0) std::this_thread::yield();
      rank.group().Abort();
    });
    graph->Replay();
    graph->Replay();  // like a host that is a step ahead
    const absl::Status status = rank.stream().Synchronize();
    other.join();
    return status;
  });
  for (const auto& result : results) EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
}

TEST(NcclCommunicator, RanksThatAskForDifferentThingsAreToldWhat) {
  const Results results = RunNccl({.tokens = 2}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor x = rank.Put(Floats(4, 1.f));
    if (rank.group().rank() == 0) {
      rank.group().AllReduceSum(x, rank.stream());
    } else {
      rank.group().Broadcast(0, x, rank.stream());
    }
    return rank.stream().Synchronize();
  });
  for (const auto& result : results) {
    EXPECT_THAT(std::string(result.status().message()), AllOf(HasSubstr("ncclAllReduce"), HasSubstr("ncclBroadcast")));
  }
}

TEST(NcclCommunicator, RanksThatBringDifferentLengthsAreToldWhich) {
  const Results results = RunNccl({.tokens = 2}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
    const Tensor x = rank.Put(Floats(4 + rank.group().rank(), 1.f));
    rank.group().AllReduceSum(x, rank.stream());
    return rank.stream().Synchronize();
  });
  for (const auto& result : results) {
    EXPECT_THAT(std::string(result.status().message()), AllOf(HasSubstr("of 4 of"), HasSubstr("of 5 of")));
  }
}

// Each rank waits for the next in another group; no two ranks make different calls in one group.
TEST(NcclCommunicator, GroupsThatAreCalledInDifferentOrdersAreNamed) {
  const Results results =
      RunNccl({.guidance = 2, .tokens = 2}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
        const Tensor x = rank.Put(Floats(4, 1.f));
        const int me = rank.mesh().world().rank();
        Communicator* const first = me == 0 || me == 3 ? &rank.mesh().tokens() : &rank.mesh().guidance();
        Communicator* const second = me == 0 || me == 3 ? &rank.mesh().guidance() : &rank.mesh().tokens();
        first->AllReduceSum(x, rank.stream());
        second->AllReduceSum(x, rank.stream());
        return rank.stream().Synchronize();
      });
  for (const auto& result : results) {
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("ranks wait for each other"));
  }
}

TEST(NcclCommunicator, MemoryThatIsNotTheDevicesIsRefused) {
  const Results results = RunNccl({.tokens = 2}, [](const ContractRank& rank) -> absl::StatusOr<std::string> {
    Floats host(4, 1.f);
    rank.group().AllReduceSum(Tensor(DType::kF32, {4}, host.data()), rank.stream());
    return rank.stream().Synchronize();
  });
  std::string messages;  // the second may report the first one's failure
  for (const auto& result : results) messages += std::string(result.status().message());
  EXPECT_THAT(messages, HasSubstr("ncclAllReduce reads outside of an allocation"));
}

TEST(NcclAbi, ALibraryThatIsMissingOrTooOldIsNamedWithWhatToDo) {
  const auto message = [](const std::string& file) {
    const auto opened = nccl::Open(file);
    EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
    return std::string(opened.status().message());
  };
  EXPECT_THAT(message("libno.so"), AllOf(HasSubstr("libno.so cannot be opened"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_THAT(message("libc.so.6"), HasSubstr("libc.so.6 has no function ncclGetVersion"));
  ASSERT_TRUE(nccl::Open(nccl::kLibrary).ok());
  Control<void(int)>("kinora_nccl_pretend")(21902);
  EXPECT_THAT(message(nccl::kLibrary), HasSubstr("is version 2.19.2, this program needs 2.20.0"));
  Control<void(int)>("kinora_nccl_pretend")(22809);
}

TEST(NcclMesh, OfOneRankNeedsNoLibrary) {
  const Results results = RunForked(1, [](int, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeNcclMesh({}, 0, rendezvous, {.library = "libno.so"}));
    EXPECT_EQ(mesh->world().size(), 1);
    return "";
  });
  EXPECT_TRUE(results[0].ok()) << results[0].status();
}

}  // namespace
}  // namespace kinora
