// How many plans of cuDNN the first clip of a size needs on the released models, by what they cost to build.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <variant>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/config/released_models.h"
#include "engine/ops/cuda/cudnn_listing.h"
#include "engine/pipeline/dry_model.h"
#include "engine/pipeline/modules.h"
#include "engine/request/request_rules.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

struct Counts {
  int attentions = 0, loaded = 0;  // plans of attention, and of convolutions whose kernels cuDNN contains
  size_t forms = 0;                // of convolutions that it compiles, once for all sizes
};

// As in cudnn_frontend.cc.
bool IsCompiled(const CudnnConvolution& c) {
  return c.activation != Activation::kNone || c.out_dtype != DType::kBF16 || (c.accumulate && !c.bias);
}

absl::StatusOr<Counts> PlansOf(const std::string& name, int32_t width, int32_t height, int32_t frames) {
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReleasedModelConfig(name));
  const ModelDescription description = Describe(config, {.kind = "dev"});
  const BackendTraits traits = *TraitsOf("cuda", {});
  const auto mesh = Mesh::Single();
  DryModel::Options options{.traits = traits, .precision = DType::kBF16};
  options.make_listing = [&] { return std::make_unique<CudnnListing>(traits); };
  KINORA_ASSIGN_OR_RETURN(const DryModel model, DryModel::Make(config, description, *mesh, options));
  GenerationRequest request{.prompt = "a boat", .width = width, .height = height, .num_frames = frames};
  request.recipe = Recipe::kOneStage;
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(description, request));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, model.Plan(resolved, nullptr));
  Counts counts;
  std::set<CudnnConvolution> forms;
  for (const CudnnPlans::Shape& shape : static_cast<const ListedPlans&>(*plan.one_time_work).shapes) {
    const auto* convolution = std::get_if<CudnnConvolution>(&shape);
    if (convolution == nullptr) {
      ++counts.attentions;
    } else if (IsCompiled(*convolution)) {
      CudnnConvolution form = *convolution;
      form.frames = form.rows = form.columns = 0;
      forms.insert(form);
    } else {
      ++counts.loaded;
    }
  }
  counts.forms = forms.size();
  return counts;
}

// Processor seconds of building a plan, as docs/cuda.md says.
constexpr double kAttention = 0.8, kLoaded = 0.008, kForm = 1.3;

TEST(PlanCounts, ThePageSaysWhatIsComputed) {
  const std::string page = ReadFile(KINORA_SOURCE_DIR "/docs/cuda.md");
  const auto expect = [&](const char* model, const char* released, int32_t width, int32_t height) {
    KINORA_ASSERT_OK_AND_ASSIGN(const Counts c, PlansOf(released, width, height, 121));
    const double seconds = kAttention * c.attentions + kLoaded * c.loaded + kForm * static_cast<double>(c.forms);
    const std::string row = absl::StrFormat("| %s | %dx%d | %d | %d | %d | %.1f |\n", model, width, height,
                                            c.attentions, c.loaded, c.forms, seconds);
    std::printf("%s", row.c_str());
    EXPECT_NE(page.find(row), std::string::npos) << "docs/cuda.md lacks " << row;
  };
  expect("2.0", "ltx-2-19b", 768, 512);
  expect("2.3", "ltx-2.3-22b", 768, 512);
  expect("2.3", "ltx-2.3-22b", 1280, 768);
  expect("2.3", "ltx-2.3-22b", 1920, 1088);
}

}  // namespace
}  // namespace kinora
