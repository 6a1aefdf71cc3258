#include "engine/parallel/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/parallel/dry_communicator.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/tensor/cpu_stream.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

TEST(MeshShape, SizesThatNoGroupCanHaveAreRefusedByName) {
  const std::pair<MeshShape, const char*> wrong[] = {{{.tokens = 3}, "tokens=3"},     {{.tokens = 16}, "tokens=16"},
                                                     {{.tokens = 0}, "tokens=0"},     {{.guidance = 3}, "guidance=3"},
                                                     {{.guidance = 8}, "guidance=8"}, {{.tensor = 0}, "tensor=0"},
                                                     {{.tensor = -2}, "tensor=-2"}};
  for (const auto& [shape, name] : wrong) {
    const auto threads = MakeThreadMeshes(shape);
    ASSERT_FALSE(threads.ok()) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(threads.status()));
    EXPECT_THAT(std::string(threads.status().message()), HasSubstr(name));
    EXPECT_TRUE(absl::IsInvalidArgument(MakeDryMesh(shape).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(RunThreadRanks(shape, [](const Mesh&) { return absl::OkStatus(); })));
  }
  for (int tokens : {1, 2, 4, 8}) EXPECT_TRUE(MakeThreadMeshes({.tokens = tokens}).ok());
  for (int guidance : {1, 2, 4}) EXPECT_TRUE(MakeThreadMeshes({.guidance = guidance}).ok());
  EXPECT_TRUE(MakeThreadMeshes({.tensor = 3}).ok());
}

TEST(MeshShape, AnAxisIsGivenOnce) {
  EXPECT_EQ(MeshShape::Parse("guidance=2,tokens=2")->ranks(), 4);
  const absl::Status twice = MeshShape::Parse("tokens=2,tensor=2,tokens=4").status();
  EXPECT_TRUE(absl::IsInvalidArgument(twice));
  EXPECT_THAT(std::string(twice.message()), HasSubstr("tokens is given twice"));
}

TEST(Mesh, TensorRanksVaryFastestThenTokensThenGuidance) {
  const MeshShape shape{.guidance = 2, .tokens = 4, .tensor = 2};
  const auto meshes = MakeThreadMeshes(shape);
  ASSERT_TRUE(meshes.ok());
  ASSERT_EQ(meshes->size(), 16u);
  for (int rank = 0; rank < 16; ++rank) {
    const auto dry = MakeDryMesh(shape, rank);
    ASSERT_TRUE(dry.ok());
    for (const Mesh* mesh : {(*meshes)[rank].get(), dry->get()}) {
      EXPECT_EQ(mesh->world().rank(), rank);
      EXPECT_EQ(mesh->world().size(), 16);
      EXPECT_EQ(mesh->tensor().rank(), rank % 2);
      EXPECT_EQ(mesh->tokens().rank(), rank / 2 % 4);
      EXPECT_EQ(mesh->guidance().rank(), rank / 8);
      EXPECT_EQ(mesh->tensor().size(), 2);
      EXPECT_EQ(mesh->tokens().size(), 4);
      EXPECT_EQ(mesh->guidance().size(), 2);
    }
  }
  EXPECT_TRUE(absl::IsInvalidArgument(MakeDryMesh(shape, 16).status()));
}

// Each rank contributes a different bit, so the sum over a group identifies its members.
TEST(Mesh, EachGroupHoldsTheRanksThatDifferInItsAxisOnly) {
  const auto members = [](Communicator& group, int rank) {
    float bit = static_cast<float>(1 << rank);
    CpuStream stream;
    group.AllReduceSum(Tensor(DType::kF32, {1}, &bit), stream);
    EXPECT_TRUE(stream.Synchronize().ok());
    return static_cast<int>(bit);
  };
  const absl::Status status = RunThreadRanks({.guidance = 2, .tokens = 2, .tensor = 2}, [&](const Mesh& mesh) {
    const int rank = mesh.world().rank();
    EXPECT_EQ(members(mesh.tensor(), rank), 1 << rank | 1 << (rank ^ 1));
    EXPECT_EQ(members(mesh.tokens(), rank), 1 << rank | 1 << (rank ^ 2));
    EXPECT_EQ(members(mesh.guidance(), rank), 1 << rank | 1 << (rank ^ 4));
    EXPECT_EQ(members(mesh.world(), rank), 255);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Mesh, GuidanceFoldsIntoTokensWhereThereMayBeSoMany) {
  const auto folded = [](const MeshShape& shape, int factor) -> std::string {
    const auto mesh = MakeDryMesh(shape, shape.ranks() - 1).value();
    const Mesh* to = mesh->Folded(factor);
    if (to == nullptr) return "";
    EXPECT_EQ(&to->world(), &mesh->world());
    EXPECT_EQ(&to->tensor(), &mesh->tensor());
    EXPECT_EQ(to->tokens().size(), to->shape().tokens);
    EXPECT_EQ(to->guidance().size(), to->shape().guidance);
    EXPECT_EQ(to->tokens().rank(), to->shape().tokens - 1);
    return to->shape().ToString();
  };
  EXPECT_EQ(folded({.guidance = 2}, 2), "tokens=2");
  EXPECT_EQ(folded({.guidance = 2}, 4), "");
  EXPECT_EQ(folded({.guidance = 4}, 2), "guidance=2,tokens=2");
  EXPECT_EQ(folded({.guidance = 4}, 4), "tokens=4");
  EXPECT_EQ(folded({.guidance = 4, .tokens = 4, .tensor = 2}, 2), "guidance=2,tokens=8,tensor=2");
  EXPECT_EQ(folded({.guidance = 4, .tokens = 4}, 4), "");
  EXPECT_EQ(folded({.guidance = 2, .tokens = 8}, 2), "");
  EXPECT_EQ(folded({.tokens = 4}, 2), "");
}

TEST(Mesh, FoldedGroupsHoldTheirRanksInOrderAndCountForTheirAxis) {
  const absl::Status status = RunThreadRanks({.guidance = 4, .tokens = 2}, [&](const Mesh& mesh) {
    const int rank = mesh.world().rank();
    const Mesh& folded = *mesh.Folded(2);
    EXPECT_EQ(folded.tokens().rank(), rank % 4);
    EXPECT_EQ(folded.guidance().rank(), rank / 4);
    const auto gather = [&](Communicator& group) {
      float own = static_cast<float>(rank);
      std::vector<float> all(group.size());
      CpuStream stream;
      group.AllGather(Tensor(DType::kF32, {1}, &own), Tensor(DType::kF32, {group.size()}, all.data()), stream);
      EXPECT_TRUE(stream.Synchronize().ok());
      return all;
    };
    const auto first = static_cast<float>(rank / 4 * 4), other = static_cast<float>(rank % 4);
    EXPECT_EQ(gather(folded.tokens()), (std::vector<float>{first, first + 1, first + 2, first + 3}));
    EXPECT_EQ(gather(folded.guidance()), (std::vector<float>{other, other + 4}));
    gather(mesh.tokens());
    constexpr int kGather = static_cast<int>(Collective::kAllGather);
    EXPECT_EQ(mesh.Counts(MeshAxis::kTokens)[kGather].calls, 2);
    EXPECT_EQ(mesh.Counts(MeshAxis::kGuidance)[kGather].calls, 1);
    EXPECT_EQ(mesh.Counts(MeshAxis::kWorld)[kGather].calls, 0);
    EXPECT_FALSE(mesh.Has(MeshAxis::kTensor));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(MakeDryMesh({.guidance = 2}).value()->Has(MeshAxis::kTokens));
}

TEST(DryCommunicator, CountsWhatThreadsCountAndNeedsNoMemory) {
  const auto use = [](Communicator& group, void* data, void* other, Stream& stream) {
    group.AllReduceSum(Tensor(DType::kBF16, {16, 8}, data), stream);
    group.AllGather(Tensor(DType::kF32, {2, 8}, data), Tensor(DType::kF32, {8, 8}, other), stream);
    group.AllToAll(Tensor(DType::kF32, {8, 8}, data), Tensor(DType::kF32, {8, 8}, other), 1, stream);
    group.Broadcast(1, Tensor(DType::kF32, {8, 8}, data), stream);
    const int64_t counts[] = {3, 3, 3, 3};
    group.GatherTo(1, counts, Tensor(DType::kF32, {3}, data), Tensor(DType::kF32, {12}, other), stream);
  };
  const absl::Status status = RunThreadRanks({.tokens = 4}, [&](const Mesh& mesh) {
    const int rank = mesh.tokens().rank();
    std::vector<float> data(64), other(64);
    CpuStream stream;
    use(mesh.tokens(), data.data(), other.data(), stream);
    const auto dry = MakeDryMesh({.tokens = 4}, rank);
    use((*dry)->tokens(), nullptr, nullptr, stream);
    const int64_t bytes[] = {2 * 3 * 16 * 8 * 2 / 4, 3 * 2 * 8 * 4, 3 * 8 * 8 * 4 / 4, rank == 1 ? 8 * 8 * 4 : 0,
                             rank == 1 ? 0 : 3 * 4};
    for (int op = 0; op < kCollectives; ++op) {
      for (const Communicator* group : {&mesh.tokens(), &(*dry)->tokens()}) {
        EXPECT_EQ(group->counts()[op].calls, 1) << CollectiveName(static_cast<Collective>(op));
        EXPECT_EQ(group->counts()[op].bytes, bytes[op]) << CollectiveName(static_cast<Collective>(op));
      }
    }
    return stream.Synchronize();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace kinora
