#include "engine/parallel/layer_relay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/ops/backend.h"
#include "engine/parallel/dry_communicator.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

std::vector<LayerRun> RunsOf(int ranks, const std::vector<int64_t>& sizes) {
  std::vector<LayerRun> runs;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto mesh = MakeDryMesh({.tensor = ranks}, rank).value();
    runs.push_back(LayerRelay(*mesh, sizes).held());
  }
  return runs;
}

TEST(LayerRelay, EveryLayerHasOneRankAndNoRankMoreThanItsShareAndALayer) {
  const std::vector<std::vector<int64_t>> chains = {
      std::vector<int64_t>(48, 1), {7}, {5, 1, 1, 1, 1, 1}, {1, 1, 1, 9}, {3, 1, 4, 1, 5, 9, 2, 6}};
  for (const std::vector<int64_t>& sizes : chains) {
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
    for (const int ranks : {1, 2, 3, 4, 8, 64}) {
      int64_t next = 0;
      for (const LayerRun& run : RunsOf(ranks, sizes)) {
        if (run.empty()) continue;
        EXPECT_EQ(run.begin, next);
        next = run.end;
        const int64_t held = std::accumulate(sizes.begin() + run.begin, sizes.begin() + run.end, int64_t{0});
        EXPECT_LT(static_cast<double>(held), static_cast<double>(all) / ranks + static_cast<double>(largest));
      }
      EXPECT_EQ(next, static_cast<int64_t>(sizes.size())) << ranks;
      EXPECT_TRUE(RunsOf(ranks, sizes)[0].holds(0));
    }
  }
}

// x = x · 2 + layer, in order. Ranks without layers get the result too.
TEST(LayerRelay, WhatIsCarriedGoesThroughAllLayersInOrderAndEndsEqualOnAllRanks) {
  const std::vector<int64_t> sizes = {4, 1, 1, 1, 1};
  float expected = 1;
  for (int layer = 0; layer < 5; ++layer) expected = 2 * expected + static_cast<float>(layer);
  for (const MeshShape& shape :
       {MeshShape{}, {.tokens = 2}, {.tensor = 3}, {.guidance = 2, .tokens = 2, .tensor = 2}}) {
    const auto results =
        RunRanks<std::vector<float>>(shape, [&](const Mesh& mesh) -> absl::StatusOr<std::vector<float>> {
          const auto backend = OpenBackend("cpu", {.threads = 1}).value();
          Arena arena(Buffer::Allocate(1 << 16, "a test").value());
          Exec exec{.backend = *backend, .arena = arena, .host = arena, .mesh = mesh};
          const LayerRelay relay(mesh, sizes);
          const Tensor x = arena.Alloc(DType::kF32, {3}), y = arena.Alloc(DType::kF32, {2, 2});
          exec.ops.Fill(mesh.world().rank() == 0 ? 1.0f : -7.0f, x);
          exec.ops.Fill(mesh.world().rank() == 0 ? 1.0f : -7.0f, y);
          relay.Run(exec, {x, y}, [&](Exec& alone, int64_t layer) {
            EXPECT_EQ(alone.mesh.world().size(), 1);
            EXPECT_TRUE(relay.held().holds(layer));
            for (const Tensor& t : {x, y}) alone.ops.Fill(2 * t.data<float>()[0] + static_cast<float>(layer), t);
          });
          return std::vector<float>{x.data<float>()[0], x.data<float>()[2], y.data<float>()[3]};
        });
    for (const std::vector<float>& result : results) EXPECT_EQ(result, std::vector<float>(3, expected));
  }
}

}  // namespace
}  // namespace kinora
