// Concurrent work on every backend: its results and its use of the arena.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/dry_backend.h"
#include "engine/parallel/thread_communicator.h"
#include "tests/parallel/chains.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

struct Rig : ModelRig {
  explicit Rig(const TestedBackend& on) : ModelRig(on, DType::kF32, nullptr, nullptr, 1 << 20) {}
};

class ConcurrentlyTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, ConcurrentlyTest, testing::ValuesIn(Backends()), BackendName);

TEST_P(ConcurrentlyTest, WhatFollowsSeesWhatBothWroteAndBothSeeWhatWasBefore) {
  Rig rig(GetParam());
  const Chains chains(rig.exec);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto graph, rig.ops().stream().Capture([&] { chains.Run(rig.exec); }));
  graph->Replay();
  EXPECT_THAT(rig.Floats(chains.x), testing::Each(0.0625f));
  graph->Replay();  // continues where the first ended
  chains.Run(rig.exec);
  EXPECT_THAT(rig.Floats(chains.x), testing::Each(0.0625f * 0.0625f * 0.0625f));
}

TEST_P(ConcurrentlyTest, TheBranchHasOpsAndMemoryOfItsOwnWhereThereIsOne) {
  Rig rig(GetParam());
  const auto at = [&](Exec& exec) { return ArenaScope(exec.arena).Alloc(DType::kF32, {16}).raw(); };
  for (const bool captured : {true, false}) {
    const bool forks = captured && rig.backend().traits().branches;
    const auto body = [&] {
      const void* main = nullptr;
      Concurrently(
          rig.exec, [&](Exec& e) { main = at(e); },
          [&](Exec& e) {
            EXPECT_EQ(at(e) != main, forks);
            EXPECT_EQ(&e.ops != &rig.exec.ops, forks);
            const Ops* const ops = &e.ops;  // it has no branch of its own
            Concurrently(
                e, [&](Exec& inner) { EXPECT_EQ(&inner.ops, ops); }, [&](Exec& inner) { EXPECT_EQ(&inner.ops, ops); });
          });
      EXPECT_EQ(at(rig.exec), main);
    };
    if (captured) {
      EXPECT_THAT(rig.ops().stream().Capture(body).status(), IsOk());
    } else {
      body();
    }
  }
}

TEST_P(ConcurrentlyTest, TheDryRunTakesWhatTheRunTakes) {
  Rig rig(GetParam());
  DryBackend dry(GetParam().traits({}));
  Arena arena = Arena::Dry();
  Exec exec{.backend = dry, .arena = arena, .host = arena, .mesh = *rig.alone};
  Chains(exec).Run(exec);
  const Chains chains(rig.exec);
  EXPECT_THAT(rig.ops().stream().Capture([&] { chains.Run(rig.exec); }).status(), IsOk());
  EXPECT_EQ(rig.arena.peak(), arena.peak());
  EXPECT_EQ(arena.peak(), (dry.traits().branches ? 3 + 4 : 3 + 2) * chains.x.bytes());
}

TEST(Concurrently, RanksForkAsOneDoes) {
  const auto meshes = *MakeThreadMeshes({.tokens = 2});
  DryBackend backend(*TraitsOf("cuda", {}));
  Arena arena = Arena::Dry();
  Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = *meshes[0]};
  const auto take = [](Exec& e) { ArenaScope(e.arena).Alloc(DType::kF32, {16}); };
  Concurrently(exec, take, take);
  EXPECT_EQ(arena.peak(), 2 * 64);
}

}  // namespace
}  // namespace kinora
