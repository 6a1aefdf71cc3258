#include "engine/parallel/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <new>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/ops/backend.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/tensor/cpu_stream.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

// The meshes of a group that outlives a run.
class Group {
 public:
  explicit Group(const MeshShape& shape) : meshes_(*MakeThreadMeshes(shape)) {}
  absl::Status Run(absl::FunctionRef<absl::Status(Exec&)> body) const {
    std::vector<const Mesh*> meshes;
    for (const auto& mesh : meshes_) meshes.push_back(mesh.get());
    return OnEveryRank(meshes, [&](const Mesh& mesh) {
      const auto backend = *OpenBackend("cpu", {});
      Arena arena(*Buffer::Allocate(4096));
      Exec exec{.backend = *backend, .arena = arena, .host = arena, .mesh = mesh};
      return body(exec);
    });
  }
  // Whether a collective over all ranks still completes.
  bool Works() const {
    return Run([](Exec& exec) { return AgreeAmongAll(exec, absl::OkStatus()); }).ok();
  }

 private:
  const std::vector<std::unique_ptr<Mesh>> meshes_;
};

int RankOf(const Exec& exec) { return exec.mesh.world().rank(); }

class Agree : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Agree, testing::Values(1, 2, 4));

TEST_P(Agree, WhatRankZeroFailsWithAllLeaveWithAndTheGroupStays) {
  const Group group({.tokens = GetParam()});
  std::atomic<int> left = 0;
  const absl::Status status = group.Run([&](Exec& exec) {
    absl::Status mine = OnRankZero(exec, [] { return absl::ResourceExhaustedError("disk full"); });
    if (RankOf(exec) != 0) {
      EXPECT_THAT(mine, StatusIs(absl::StatusCode::kCancelled, HasSubstr("rank 0")));
    }
    EXPECT_TRUE(IsAgreed(mine));
    ++left;
    return mine;
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_TRUE(IsAgreed(status));
  EXPECT_EQ(left, GetParam());
  EXPECT_TRUE(group.Works());
}

TEST_P(Agree, RankZerosNumbersAreEverybodys) {
  const Group group({.tokens = GetParam()});
  const std::vector<int64_t> numbers = {0, 7, -1, int64_t{1} << 40, std::numeric_limits<int64_t>::min()};
  EXPECT_THAT(group.Run([&](Exec& exec) -> absl::Status {
    std::vector<int64_t> mine = RankOf(exec) == 0 ? numbers : std::vector<int64_t>(numbers.size(), 5);
    KINORA_RETURN_IF_ERROR(ShareFromRankZero(exec, absl::OkStatus(), absl::MakeSpan(mine)));
    EXPECT_EQ(mine, numbers);
    const absl::Status refused = ShareFromRankZero(
        exec, RankOf(exec) == 0 ? absl::InvalidArgumentError("damaged") : absl::OkStatus(), absl::MakeSpan(mine));
    EXPECT_THAT(refused,
                StatusIs(RankOf(exec) == 0 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kCancelled));
    EXPECT_TRUE(IsAgreed(refused));
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_TRUE(group.Works());
}

TEST_P(Agree, WhatAnyRankRefusesAllRefuse) {
  const int last = GetParam() - 1;
  const Group group({.tokens = GetParam()});
  const absl::Status status = group.Run([&](Exec& exec) {
    return AgreeAmongAll(exec, RankOf(exec) == last ? absl::InvalidArgumentError("too large") : absl::OkStatus());
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too large")));
  EXPECT_TRUE(IsAgreed(status));
  EXPECT_TRUE(group.Works());
}

TEST_P(Agree, ACancelOfRankZeroIsTheOutcome) {
  const Group group({.tokens = GetParam()});
  const absl::Status status =
      group.Run([&](Exec& exec) { return OnRankZero(exec, [] { return absl::CancelledError("by the user"); }); });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("by the user")));
  EXPECT_TRUE(IsAgreed(status));
  EXPECT_TRUE(group.Works());
}

// The other ranks wait for the failed one in a collective. They must be woken, and the group is then unusable.
TEST(Agree, AFailureOfOneRankAloneIsNotAgreedAndEndsTheGroup) {
  for (const int failing : {0, 1}) {
    const Group group({.tokens = 2});
    const absl::Status status = group.Run([&](Exec& exec) -> absl::Status {
      if (RankOf(exec) == failing) return absl::InternalError("device lost");
      return AgreeAmongAll(exec, absl::OkStatus());
    });
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("device lost")));
    EXPECT_FALSE(IsAgreed(status));
    EXPECT_FALSE(group.Works());
  }
}

// Both failures at once: an agreed failure must not hide that the group is unusable.
TEST(Agree, AFailureAloneComesBeforeAnAgreedOne) {
  const Group group({.tokens = 2});
  const absl::Status status = group.Run([&](Exec& exec) -> absl::Status {
    absl::Status agreed = OnRankZero(exec, [] { return absl::ResourceExhaustedError("disk full"); });
    return RankOf(exec) == 1 ? absl::InternalError("device lost") : agreed;
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("device lost")));
  EXPECT_FALSE(IsAgreed(status));
}

TEST(Agree, TheMarkIsNoPartOfWhatAClientSees) {
  const absl::Status plain = absl::ResourceExhaustedError("disk full");
  EXPECT_FALSE(IsAgreed(plain));
  EXPECT_TRUE(IsAgreed(absl::OkStatus()));
  EXPECT_TRUE(IsAgreed(Agreed(plain)));
  EXPECT_EQ(WithoutMark(Agreed(plain)), plain);
  EXPECT_EQ(RunThreadRanks({.tokens = 2}, [&](const Mesh&) { return Agreed(plain); }), plain);
}

TEST(Agree, WantOfMemoryOnOneRankEndsTheOthers) {
  const absl::Status status = RunThreadRanks({.tokens = 4}, [](const Mesh& mesh) -> absl::Status {
    if (mesh.world().rank() == 1) throw std::bad_alloc();
    float value = 0;
    const Tensor word(DType::kF32, {1}, &value);
    CpuStream stream;
    mesh.world().Broadcast(1, word, stream);
    return stream.Synchronize();
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("rank 1: out of memory")));
}

}  // namespace
}  // namespace kinora
