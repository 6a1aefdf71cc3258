// Compares the time of changing LoRAs before the second stage with that of a forward pass of that stage, in a TWO_STAGE
// render of the demo model at its default size. The first stage uses no LoRA, the second the distilled one.
//   swap_bench   accepts the flags of Google Benchmark
// Time is that of one swap, alternately adding and removing the LoRA; pass_ms is that of a forward pass in the same
// runs.
// Layer measures the same for one large linear layer alone, in bf16 with a LoRA of the distilled LoRA's rank, 384: time
// is that of adding the LoRA, off_ms that of removing it, both with the files in the page cache. It runs on the CPU
// and, if the build has it and there is one, on a GPU.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/pipeline/pipeline.h"
#include "engine/weights/lora.h"
#include "tests/bench/or_die.h"
#include "tests/bench/random_checkpoint.h"

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

// A linear layer [width, width] and a LoRA for it, in files of a temporary folder.
class LayerFiles {
 public:
  explicit LayerFiles(int64_t width)
      : folder_(std::filesystem::temp_directory_path() / absl::StrCat("kinora-swap-bench-", getpid())) {
    std::filesystem::create_directories(folder_);
    const std::string model = folder_ / "model.safetensors", lora = folder_ / "lora.safetensors";
    const std::string module = "diffusion_model.transformer_blocks.0.attn1.to_q";
    const auto write = [](const std::string& path, const std::vector<RecordedTensor>& tensors) {
      const absl::Status written = WriteRandomCheckpoint(path, tensors);
      KINORA_CHECK(written.ok()) << written.ToString();
    };
    write(model, {{absl::StrCat("model.", module, ".weight"), {width, width}}});
    write(lora, {{absl::StrCat(module, ".lora_A.weight"), {kRank, width}},
                 {absl::StrCat(module, ".lora_B.weight"), {width, kRank}}});
    checkpoint_ = OrDie(Checkpoint::Open({.paths = {model}}));
    lora_ = OrDie(Lora::Open(lora, *checkpoint_));
  }
  ~LayerFiles() { std::filesystem::remove_all(folder_); }
  static constexpr int64_t kRank = 384;
  const std::shared_ptr<const Checkpoint>& checkpoint() const { return checkpoint_; }
  const Lora& lora() const { return *lora_; }

 private:
  const std::filesystem::path folder_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::shared_ptr<const Lora> lora_;
};

double SecondsOf(absl::FunctionRef<absl::Status()> work) {
  const absl::Time begin = Clock::Steady().Now();
  const absl::Status status = work();
  KINORA_CHECK(status.ok()) << status.ToString();
  return absl::ToDoubleSeconds(Clock::Steady().Now() - begin);
}

void Layer(benchmark::State& state, const std::string& device) {
  const int64_t width = state.range(0);
  const LayerFiles files(width);
  const auto mesh = Mesh::Single();
  const auto opened = OpenBackend(device, {.threads = kThreads});
  if (!opened.ok()) {
    state.SkipWithError(std::string(opened.status().message()).c_str());
    return;
  }
  const std::unique_ptr<Backend>& backend = *opened;
  const Precision precision = OrDie(Precision::Parse("bf16"));
  WeightLoader loader = OrDie(WeightLoader::Open(files.checkpoint(), *mesh, *backend, precision));
  const Weight weight = OrDie(loader.Under("transformer.transformer_blocks.0.attn1")
                                  .LoadWeight({"to_q"}, {.out = width, .in = width, .bias = false}));
  WeightDeltas deltas;
  files.lora().AddTo(1, deltas);
  double off = 0;
  for (auto _ : state) {
    state.SetIterationTime(SecondsOf([&] { return loader.weights()->Rewrite(deltas, backend->ops()); }));
    off += SecondsOf([&] { return loader.weights()->Rewrite({}, backend->ops()); });
  }
  state.counters["off_ms"] = 1e3 * off / static_cast<double>(state.iterations());
}
void Layers(benchmark::internal::Benchmark* layers) {
  layers->ArgName("width")->Arg(4096)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(8);
}
BENCHMARK_CAPTURE(Layer, cpu, "cpu")->Apply(Layers);
BENCHMARK_CAPTURE(Layer, cuda, "cuda")->Apply(Layers);

}  // namespace
}  // namespace kinora

BENCHMARK_MAIN();
