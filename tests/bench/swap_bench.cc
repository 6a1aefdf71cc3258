// Compares the time of changing LoRAs before the second stage with that of a forward pass of that stage, in a TWO_STAGE
// render of the demo model at its default size. The first stage uses no LoRA, the second the distilled one.
//   swap_bench   accepts the flags of Google Benchmark
// Time is that of one swap, alternately adding and removing the LoRA; pass_ms is that of a forward pass in the same
// runs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/pipeline/pipeline.h"
#include "tests/bench/or_die.h"

namespace kinora {
namespace {

constexpr char kDemo[] = KINORA_SOURCE_DIR "/models/demo/";
constexpr int kThreads = 2;

class NoSink : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

// Measures the steps of the second stage, then ends the run.
class Steps : public RunObserver {
 public:
  absl::Status OnStage(const Progress& progress) override {
    return progress.stage.kind == StageKind::kDecodeVideo ? absl::CancelledError("measured") : absl::OkStatus();
  }
  absl::Status OnStep(const Progress& progress, const StepLatents*) override {
    const absl::Time now = Clock::Steady().Now();
    if (progress.stage.name() == "denoise_2" && progress.step > 1)
      seconds_.push_back(absl::ToDoubleSeconds(now - last_));
    last_ = now;
    return absl::OkStatus();
  }
  double Median() {
    std::nth_element(seconds_.begin(), seconds_.begin() + std::ssize(seconds_) / 2, seconds_.end());
    return seconds_[seconds_.size() / 2];
  }

 private:
  std::vector<double> seconds_;
  absl::Time last_;
};

void Swap(benchmark::State& state) {
  const auto mesh = Mesh::Single();
  PipelineOptions options{.device = "cpu", .precision = OrDie(Precision::Parse("bf16")), .threads = kThreads};
  options.files.paths = {absl::StrCat(kDemo, "ltx-2.3-demo-dev.safetensors")};
  options.files.text_encoder = absl::StrCat(kDemo, "gemma");
  options.files.distilled_lora = absl::StrCat(kDemo, "ltx-2.3-demo-distilled-lora.safetensors");
  options.files.spatial_upsampler = absl::StrCat(kDemo, "ltx-2.3-demo-spatial-upscaler-x2.safetensors");
  options.lora_cache = std::make_shared<FactorCache>(state.range(0) << 20);
  GenerationRequest request;
  request.prompt = "a red circle";
  request.recipe = Recipe::kTwoStage;
  request.num_inference_steps = 1;
  options.arena_bytes = OrDie(Pipeline::Plan(options, *mesh, request)).arena_bytes;
  const auto pipeline = OrDie(Pipeline::Load(options, *mesh));
  const RunPlan plan = OrDie(pipeline->Prepare(request));
  Steps steps;
  NoSink sink;
  for (auto _ : state) {
    const absl::Status status = pipeline->Generate(plan, &sink, &steps);
    if (!absl::IsCancelled(status)) state.SkipWithError(std::string(status.message()).c_str());
    double seconds = 0, swaps = 0;
    for (const StageUse& use : pipeline->last_run()) {
      if (use.stage != kPutOnLoras) continue;
      seconds += use.seconds;
      ++swaps;
    }
    state.SetIterationTime(seconds / swaps);
  }
  state.counters["pass_ms"] = 1e3 * steps.Median();
}
BENCHMARK(Swap)->ArgName("cache_mib")->Arg(0)->Arg(64)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(40);

}  // namespace
}  // namespace kinora

BENCHMARK_MAIN();
