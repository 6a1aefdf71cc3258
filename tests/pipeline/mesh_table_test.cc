// Computes and prints the table of docs/groups.md "Which mesh" (the released models on devices of 80 GB), and checks
// that the page contains it.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/config/config_reader.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/dry_model.h"
#include "engine/request/request_rules.h"
#include "tests/config/config_files.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr int64_t kDevice = 80'000'000'000;

ModelConfig Released(const std::string& version) {
  ModelConfig config = ParseConfig(ReadConfigFile("lightricks_" + version)).value();
  config.gemma = GemmaConfig{.global_rope_factor = 8};
  for (int64_t layer = 1; layer <= config.gemma->layers; ++layer) config.gemma->sliding.push_back(layer % 6 != 0);
  return config;
}

struct Taken {                       // by rank 0
  RunPlan plan;                      // of the default clip
  double guided = 0, distilled = 0;  // FLOPs of denoising
};

Taken On(const ModelConfig& config, const MeshShape& shape, Residence text_encoder) {
  const ModelDescription description = Describe(config, {.kind = "dev"});
  const auto mesh = MakeDryMesh(shape).value();
  const DryModel model =
      DryModel::Make(config, description, *mesh,
                     {.traits = TraitsOf("cuda", {}).value(), .precision = DType::kBF16, .text_encoder = text_encoder})
          .value();
  const auto plan = [&](Recipe recipe) {
    return model.Plan(ResolveRequest(description, {.prompt = "x", .recipe = recipe}).value(), nullptr).value();
  };
  Taken taken{.plan = plan(Recipe::kOneStage)};
  taken.guided = taken.plan.Find("denoise")->cost.flops;
  taken.distilled = plan(Recipe::kDistilled).Find("denoise")->cost.flops;
  return taken;
}

std::string RowOf(const std::string& version, const ModelConfig& config, const MeshShape& shape, const Taken& one) {
  Taken taken = On(config, shape, Residence::kResident);
  if (!taken.plan.FitsDevice(kDevice)) taken = On(config, shape, Residence::kEvicted);
  EXPECT_TRUE(taken.plan.FitsDevice(kDevice)) << version << " " << shape.ToString();
  const auto gb = [](int64_t bytes) { return static_cast<double>(bytes) * 1e-9; };
  return absl::StrFormat("| %s | %d | %s | %.1f | %s | %.1f | %.0f%% | %.0f%% |", version, shape.ranks(),
                         shape.ranks() == 1 ? "–" : shape.ToString(), gb(taken.plan.weight_bytes),
                         taken.plan.TextEncoderResidence(), gb(taken.plan.arena_bytes), 100 * taken.guided / one.guided,
                         100 * taken.distilled / one.distilled);
}

TEST(MeshTable, ThePageSaysWhatIsComputed) {
  const std::string page = ReadFile(KINORA_SOURCE_DIR "/docs/groups.md");
  for (const std::string version : {"2.0", "2.3"}) {
    const ModelConfig config = Released(version);
    const Taken one = On(config, {}, Residence::kEvicted);
    for (const MeshShape& shape : {MeshShape{},
                                   {.guidance = 2},
                                   {.tokens = 2},
                                   {.tensor = 2},
                                   {.guidance = 4},
                                   {.guidance = 2, .tokens = 2},
                                   {.tokens = 4},
                                   {.tensor = 4},
                                   {.guidance = 4, .tokens = 2},
                                   {.guidance = 2, .tokens = 4},
                                   {.tokens = 8},
                                   {.tokens = 4, .tensor = 2}}) {
      const std::string row = RowOf(version, config, shape, one);
      std::printf("%s\n", row.c_str());
      EXPECT_NE(page.find(row + "\n"), std::string::npos) << "docs/groups.md lacks " << row;
    }
  }
}

}  // namespace
}  // namespace kinora
