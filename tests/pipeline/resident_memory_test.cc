// Compares the system's measurement of a render's memory with its plan. A separate program, because other tests' memory
// would count.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "engine/pipeline/pipeline.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

// Returns a field of /proc/self/status in bytes, or 0 if it is missing.
int64_t StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) << 10;
  }
  return 0;
}

class NoSink : public ClipSink {  // keeps nothing
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

TEST(ResidentMemory, ARenderTakesItsPlanWithinThreePercent) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  // Memory outside the plan: code pages, staged weights, the model's shapes, and the host's copies of latents and
  // sound. It is about 5 MiB for this request, so the plan must be large for a percentage to be meaningful.
  constexpr int64_t kWorthAPercentage = int64_t{400} << 20;
  const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
  PipelineOptions options;
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  options.precision = DType::kF32;
  options.threads = 2;
  GenerationRequest request{.prompt = "a boat", .width = 768, .height = 768, .num_frames = 25, .frame_rate = 24};
  request.recipe = Recipe::kOneStage;
  request.sigmas = {1.0, 0.0};
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, Pipeline::Plan(options, *Mesh::Single(), request));
  options.arena_bytes = plan.arena_bytes;
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak to the current size
  const int64_t before = StatusBytes("VmRSS");
  ASSERT_GT(before, 0);
  if (StatusBytes("VmHWM") > before + (1 << 20)) GTEST_SKIP() << "this kernel does not let a process reset its peak";
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options, *mesh));
  NoSink sink;
  ASSERT_THAT(pipeline->Generate(plan, &sink, nullptr), IsOk());
  const int64_t taken = StatusBytes("VmHWM") - before, planned = plan.arena_bytes + plan.weight_bytes;
  EXPECT_GT(planned, kWorthAPercentage);
  EXPECT_GE(taken, 0.97 * static_cast<double>(planned));
  EXPECT_LE(taken, 1.03 * static_cast<double>(planned));
}

}  // namespace
}  // namespace kinora
