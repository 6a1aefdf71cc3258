#include "engine/model/gemma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "engine/base/status_macros.h"
#include "engine/ops/dry_backend.h"
#include "tests/model/text_rig.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 37;  // of the golden: longer than its sliding window of 16
const std::vector<int64_t> kLengths = {37, 22};

GemmaConfig GoldenConfig() { return TinyGemma(/*layers=*/4, /*pattern=*/3, /*window=*/16, /*vocabulary=*/320); }

// Ids of the prompts [first, last) of the golden, packed.
std::vector<int32_t> PackedIds(Golden& golden, size_t first = 0, size_t last = 2) {
  const Tensor& ids = golden.Get("in.input_ids");
  std::vector<int32_t> packed;
  for (size_t prompt = first; prompt < last; ++prompt) {
    const int32_t* row = ids.data<int32_t>() + static_cast<int64_t>(prompt) * kRows;
    packed.insert(packed.end(), row + kRows - kLengths[prompt], row + kRows);
  }
  return packed;
}

using States = std::vector<std::vector<float>>;

// The golden's weights as a text encoder's folder, written once and removed at the end.
std::string GoldenFolder() {
  namespace fs = std::filesystem;
  struct Folder {
    Folder() : path(fs::path(GoldenCheckpoint("gemma")).replace_extension(".folder")) {
      fs::create_directories(path);
      fs::copy_file(GoldenCheckpoint("gemma"), path / "model.safetensors", fs::copy_options::overwrite_existing);
      std::ofstream(path / "config.json") << Golden("gemma").metadata("config");
    }
    ~Folder() { fs::remove_all(path); }
    const fs::path path;
  };
  static const Folder folder;
  return folder.path.string();
}

absl::StatusOr<States> RunStates(ModelRig& rig, Golden& golden, const GemmaConfig& config, size_t first = 0,
                                 size_t last = 2, int64_t rows = kRows) {
  WeightLoader weights = rig.Open({.text_encoder = GoldenFolder()});
  KINORA_ASSIGN_OR_RETURN(const Gemma gemma, Gemma::Load(weights.Under("text_encoder"), config, rows));
  KINORA_RETURN_IF_ERROR(weights.Finish());
  const std::vector<int32_t> ids = PackedIds(golden, first, last);
  const std::vector<int64_t> lengths(kLengths.begin() + static_cast<int64_t>(first),
                                     kLengths.begin() + static_cast<int64_t>(last));
  States states;
  gemma.Forward(rig.exec, ids, lengths, [&](int64_t index, const Tensor& hidden) {
    EXPECT_EQ(index, static_cast<int64_t>(states.size()));
    states.push_back(rig.Floats(hidden));
  });
  return states;
}

// Largest error over the states against the golden.
double WorstError(Golden& golden, States& states) {
  double worst = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const HostTensor expected = PackValid(golden.Get("out.hidden_states"), kLengths, static_cast<int64_t>(i));
    worst = std::max(
        worst, RelativeError(Tensor(DType::kF32, expected.tensor().shape(), states[i].data()), expected.tensor()));
  }
  return worst;
}

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

// Rotation is relative: positions 0 … n - 1 instead of rows - n … rows - 1 change nothing but the rounding.
TEST(Gemma, TheLengthOfThePaddedRowChangesOnlyRounding) {
  Golden golden("gemma");
  ModelRig rig(Cpu(), DType::kF32);
  States states = RunStates(rig, golden, GoldenConfig(), 0, 2, /*rows=*/1024).value();
  EXPECT_LE(WorstError(golden, states), 1e-4);
}

// Each of these mistakes must be far above the tolerance, or the golden proves nothing.
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

TEST(Gemma, TwoTensorRanksAgreeWithOne) {
  Golden golden("gemma");
  const std::vector<States> ranks = RunRanks<States>({.tensor = 2}, [](const Mesh& mesh) -> absl::StatusOr<States> {
    Golden own("gemma");
    ModelRig rig(Cpu(), DType::kF32, nullptr, &mesh);
    return RunStates(rig, own, GoldenConfig());
  });
  EXPECT_EQ(ranks[0], ranks[1]);
  States states = ranks[0];
  EXPECT_LE(WorstError(golden, states), Tolerance(TestBackend::kCpu, DType::kF32));
}

TEST(Gemma, RanksThatDoNotDivideTheHeadsAreRefused) {
  const std::vector<int> done = RunRanks<int>({.tensor = 4}, [](const Mesh& mesh) -> absl::StatusOr<int> {
    DryBackend backend;
    EXPECT_THAT(Gemma::Load(WeightLoader::Dry(mesh, backend, DType::kF32), TinyGemma(), 1024),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor=4 does not divide")));
    return 1;
  });
  EXPECT_EQ(done, std::vector<int>(4, 1));
}

// 11766 million parameters without the output head, 22.9 TFLOP for 1024 tokens (docs/model.md "Size and work").
TEST(Gemma, TheReleasedSizeHasItsParametersAndFlops) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  Arena arena = Arena::Dry();
  Exec exec{backend, arena, arena, *mesh, DType::kBF16};
  WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  const Gemma gemma = Gemma::Load(weights.Under("text_encoder"), ReleasedGemma(), 1024).value();
  EXPECT_EQ((weights.recorded_elements() + 500000) / 1000000, 11766);
  const int64_t lengths[] = {1024};
  gemma.Forward(exec, std::vector<int32_t>(1024), lengths, [](int64_t, const Tensor&) {});
  EXPECT_NEAR(static_cast<double>(backend.ops().cost().flops()) / 1e12, 22.9, 0.02 * 22.9);
  EXPECT_LT(arena.peak(),
            1024 * (2 * 3840 + 2 * 15360) * 2 + (64 << 10));  // x, a normed copy, gate and up: no stack of states
}

}  // namespace
}  // namespace kinora
