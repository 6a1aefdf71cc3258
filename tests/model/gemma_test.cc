#include "engine/model/gemma.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "tests/model/gemma_rig.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

GemmaConfig GoldenConfig() { return TinyGemma(/*layers=*/4, /*pattern=*/3, /*window=*/16, /*vocabulary=*/320); }

class GemmaOnABackend : public testing::TestWithParam<std::tuple<DType, TestedBackend>> {};

TEST_P(GemmaOnABackend, StatesEqualTheReference) {
  const auto& [dtype, on] = GetParam();
  Golden golden("gemma");
  const double tolerance = Tolerance(on, dtype);
  int compared = 0;
  Taps taps([&](std::string_view name, const Tensor& value) {
    const std::string key = "tap." + std::string(name);
    if (!golden.Has(key)) return;
    EXPECT_TRUE(Near(value, PackValid(golden.Get(key), kLengths).tensor(), tolerance)) << name;
    ++compared;
  });
  ModelRig rig(on, dtype, &taps);
  States states = RunStates(rig, golden, GoldenConfig()).value();
  EXPECT_EQ(states.size(), 5u);
  EXPECT_EQ(compared, 4);
  EXPECT_LE(WorstError(golden, states), tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, GemmaOnABackend,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(DTypeName(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
                         });

TEST(Gemma, APromptsStatesDoNotDependOnItsNeighbours) {
  Golden golden("gemma");
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    ModelRig rig(Cpu(), dtype);
    const States both = RunStates(rig, golden, GoldenConfig()).value();
    const States first = RunStates(rig, golden, GoldenConfig(), 0, 1).value(),
                 second = RunStates(rig, golden, GoldenConfig(), 1, 2).value();
    for (size_t i = 0; i < both.size(); ++i) {
      std::vector<float> joined = first[i];
      joined.insert(joined.end(), second[i].begin(), second[i].end());
      EXPECT_EQ(both[i], joined) << "state " << i;  // bit for bit
    }
  }
}

// Rotary positions are relative: using 0 … n - 1 instead of rows - n … rows - 1 changes only the rounding.
TEST(Gemma, TheLengthOfThePaddedRowChangesOnlyRounding) {
  Golden golden("gemma");
  ModelRig rig(Cpu(), DType::kF32);
  States states = RunStates(rig, golden, GoldenConfig(), 0, 2, /*rows=*/1024).value();
  EXPECT_LE(WorstError(golden, states), 1e-4);
}

// Each of these mistakes must exceed the tolerance by far; otherwise the golden proves nothing.
TEST(Gemma, TheGoldenCatchesTheUsualMistakes) {
  Golden golden("gemma");
  std::map<std::string, GemmaConfig> mistakes;
  for (const char* name : {"no rope scaling", "window one shorter", "window one longer", "no global layer",
                           "no local layer", "scale", "one frequency base"}) {
    mistakes[name] = GoldenConfig();
  }
  mistakes["no rope scaling"].global_rope_factor = 1;
  mistakes["window one shorter"].sliding_window = 15;
  mistakes["window one longer"].sliding_window = 17;
  mistakes["no global layer"].sliding.assign(4, true);
  mistakes["no local layer"].sliding.assign(4, false);
  mistakes["scale"].query_scale = 64;
  mistakes["one frequency base"].global_rope_theta = 1e4;
  for (const auto& [name, config] : mistakes) {
    ModelRig rig(Cpu(), DType::kF32);
    States states = RunStates(rig, golden, config).value();
    EXPECT_GE(WorstError(golden, states), 100 * Tolerance(TestBackend::kCpu, DType::kF32)) << name;
  }
}

// The number of ranks need not divide the 4 heads, 2 key heads or 4 layers.
TEST(Gemma, EachStateIsOfOneRankOfAnyMeshAndHasTheBitsOfOneRank) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const auto run = [&](const Mesh& mesh) -> absl::StatusOr<States> {
      Golden own("gemma");
      ModelRig rig(Cpu(), dtype, nullptr, &mesh);
      return RunStates(rig, own, GoldenConfig());
    };
    const States one = RunRanks<States>({}, run)[0];
    for (const MeshShape& shape :
         {MeshShape{.tokens = 2}, {.tensor = 3}, {.guidance = 2, .tokens = 2}, {.tokens = 8}}) {
      States joined(one.size());
      for (const States& states : RunRanks<States>(shape, run)) {
        for (size_t i = 0; i < states.size(); ++i) {
          EXPECT_TRUE(states[i].empty() || joined[i].empty()) << "state " << i << " of two ranks";
          if (!states[i].empty()) joined[i] = states[i];
        }
      }
      EXPECT_TRUE(joined == one) << shape.ToString();
    }
  }
}

TEST(Gemma, ARankHoldsNoMoreThanItsShareOfTheReleasedOneAndALayer) {
  const auto held = [](const MeshShape& shape, int rank) {
    DryBackend backend;
    const auto mesh = MakeDryMesh(shape, rank).value();
    const WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
    const Gemma gemma = Gemma::Load(weights.Under("text_encoder"), ReleasedGemma(), 1024).value();
    return backend.ops().weight_bytes() + weights.tensor_bytes();
  };
  const int64_t all = held({}, 0), layer = 2 * 3840 * (2 * (16 + 8) * 256 + 3 * 15360), tables = 4 << 20;
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2, .tokens = 2}, {.tensor = 3}, {.tokens = 8}}) {
    int64_t together = 0;
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      EXPECT_LE(held(shape, rank), all / shape.ranks() + layer + tables) << shape.ToString() << " rank " << rank;
      together += held(shape, rank);
    }
    EXPECT_NEAR(static_cast<double>(together), static_cast<double>(all), static_cast<double>(shape.ranks() * tables));
  }
}

// 11766 million parameters without the output head, 22.9 TFLOP for 1024 tokens (docs/model.md "Parameters and FLOPs").
TEST(Gemma, TheReleasedSizeHasItsParametersAndFlops) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  Arena arena = Arena::Dry();
  Exec exec{backend, arena, arena, *mesh, DType::kBF16};
  WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  const Gemma gemma = Gemma::Load(weights.Under("text_encoder"), ReleasedGemma(), 1024).value();
  EXPECT_EQ((weights.recorded_elements() + 500000) / 1000000, 11766);
  const int64_t lengths[] = {1024};
  gemma.Forward(exec, std::vector<int32_t>(1024), lengths, arena.Alloc(DType::kF32, {1}),
                [](int64_t, const Tensor&) {});
  EXPECT_NEAR(static_cast<double>(backend.ops().cost().flops()) / 1e12, 22.9, 0.02 * 22.9);
  EXPECT_LT(arena.peak(),
            1024 * (2 * 3840 + 2 * 15360) * 2 + (64 << 10));  // x, a normed copy, gate and up; no stack of states
}

}  // namespace
}  // namespace kinora
