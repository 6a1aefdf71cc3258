#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "engine/config/config_reader.h"
#include "engine/ops/dry_backend.h"
#include "engine/weights/safetensors.h"
#include "tests/model/gemma_rig.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

GemmaConfig GoldenConfig() { return ParseGemmaConfig(Golden("gemma4").metadata("config")).value(); }

class Gemma4OnABackend : public testing::TestWithParam<std::tuple<DType, TestedBackend>> {};

TEST_P(Gemma4OnABackend, StatesEqualTheReference) {
  const auto& [dtype, on] = GetParam();
  Golden golden("gemma4");
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
  EXPECT_EQ(compared, 3);
  EXPECT_LE(WorstError(golden, states), tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, Gemma4OnABackend,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(DTypeName(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
                         });

TEST(Gemma4, TheConfigurationIsThatOfTheMetadata) {
  const GemmaConfig config = GoldenConfig();
  EXPECT_EQ(config.generation, 4);
  EXPECT_EQ(config.sliding, std::vector<bool>({true, false, true, false}));
  EXPECT_EQ(config.head_dim_of(true), 16);
  EXPECT_EQ(config.head_dim_of(false), 32);
  EXPECT_EQ(config.kv_heads_of(true), 2);
  EXPECT_EQ(config.kv_heads_of(false), 1);
  EXPECT_EQ(config.global_rotated_part, 0.25);
  EXPECT_TRUE(config.global_key_is_value);
}

// Each of these mistakes must exceed the tolerance by far; otherwise the golden proves nothing.
TEST(Gemma4, TheGoldenCatchesTheUsualMistakes) {
  Golden golden("gemma4");
  std::map<std::string, GemmaConfig> mistakes;
  for (const char* name : {"scale", "window one shorter", "window one longer", "no local layer", "all pairs rotated",
                           "one frequency base", "Gemma-3's factor"}) {
    mistakes[name] = GoldenConfig();
  }
  mistakes["scale"].query_scale = 16;
  mistakes["window one shorter"].sliding_window = 15;
  mistakes["window one longer"].sliding_window = 17;
  mistakes["no local layer"].sliding_window = kRows;
  mistakes["all pairs rotated"].global_rotated_part = 1;
  mistakes["one frequency base"].global_rope_theta = 1e4;
  mistakes["Gemma-3's factor"].global_rope_factor = 8;
  for (const auto& [name, config] : mistakes) {
    ModelRig rig(Cpu(), DType::kF32);
    States states = RunStates(rig, golden, config).value();
    EXPECT_GE(WorstError(golden, states), 100 * Tolerance(TestBackend::kCpu, DType::kF32)) << name;
  }
}

TEST(Gemma4, EachStateIsOfOneRankOfAnyMeshAndHasTheBitsOfOneRank) {
  const auto run = [&](const Mesh& mesh) -> absl::StatusOr<States> {
    Golden own("gemma4");
    ModelRig rig(Cpu(), DType::kBF16, nullptr, &mesh);
    return RunStates(rig, own, GoldenConfig());
  };
  const States one = RunRanks<States>({}, run)[0];
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.tensor = 3}}) {
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

// LTX-2.5's text encoder: 11907 million parameters with the embeddings, and 23.3 TFLOP for 1024 tokens: 22.3
// in the matrices, the rest in the attention.
TEST(Gemma4, TheReleasedSizeHasItsParametersAndFlops) {
  GemmaConfig config = GoldenConfig();
  config.vocabulary = 262144;
  config.width = 3840;
  config.ff_width = 15360;
  config.layers = 48;
  config.heads = 16;
  config.kv_heads = 8;
  config.head_dim = 256;
  config.global_head_dim = 512;
  config.sliding_window = 1024;
  config.sliding.clear();
  for (int64_t i = 0; i < config.layers; ++i) config.sliding.push_back(i % 6 != 5);
  DryBackend backend;
  const auto mesh = Mesh::Single();
  Arena arena = Arena::Dry();
  Exec exec{backend, arena, arena, *mesh, DType::kBF16};
  WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  const Gemma gemma = Gemma::Load(weights.Under("text_encoder"), config, 1024).value();
  EXPECT_EQ((weights.recorded_elements() + 500000) / 1000000, 11907);
  const int64_t lengths[] = {1024};
  gemma.Forward(exec, std::vector<int32_t>(1024), lengths, arena.Alloc(DType::kF32, {1}),
                [](int64_t, const Tensor&) {});
  EXPECT_NEAR(static_cast<double>(backend.ops().cost().flops()) / 1e12, 23.3, 0.02 * 23.3);
}

}  // namespace
}  // namespace kinora
