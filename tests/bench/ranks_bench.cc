// What one rank of a group takes on the CPU, the others left out, beside a rank alone: a forward pass of the
// transformer of middle size (docs/performance.md), bf16, random weights.
//   ranks_bench [THREADS = 2] [PAIRS = 5] [VIDEO_TOKENS…= 1536 6144]
// For each mesh and size one line: the medians of both, this rank's share of the operations, and how long it takes per
// operation against a rank alone (the median of the pairs' ratios; 1: as long as its share says). The two run in turns.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/velocity_model.h"
#include "tests/bench/measure.h"
#include "tests/bench/random_checkpoint.h"

namespace kinora {
namespace {

constexpr int64_t kTextRows = 1024, kAudioTokens = 126;

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

TransformerConfig MiddleSize() {
  TransformerConfig config{.layers = 6, .gated_attention = true, .cross_attention_adaln = true};
  config.video.heads = config.audio.heads = 8;
  config.video.context_width = config.video.width();
  config.audio.context_width = config.audio.width();
  config.caption_projection = false;
  return config;
}

// Rank 0 of a mesh whose other ranks are not there: it computes its part, on what lies in its memory where theirs would
// come in.
class Rank {
 public:
  Rank(const MeshShape& shape, const TransformerConfig& config, int64_t video_tokens, int threads)
      : mesh_(OrDie(MakeDryMesh(shape))), config_(config), video_tokens_(video_tokens) {
    DryBackend dry;
    WeightLoader recorded = WeightLoader::Dry(*mesh_, dry, DType::kBF16);
    const auto dry_model = OrDie(Transformer::Load(recorded.Under("transformer"), config_));
    Arena dry_arena = Arena::Dry();
    Exec dry_exec = On(dry, dry_arena);
    const Pass dry_pass(dry_exec, *dry_model, *this);
    dry.ops().ResetCost();
    dry_pass.Run(dry_exec);
    flops_ = static_cast<double>(dry.ops().cost().flops());

    backend_ = OrDie(OpenBackend("cpu", {.threads = threads}));
    WeightLoader weights = OrDie(WeightLoader::Open(WholeModel(config_), *mesh_, *backend_, DType::kBF16));
    model_ = OrDie(Transformer::Load(weights.Under("transformer"), config_));
    const absl::Status finished = weights.Finish();
    KINORA_CHECK(finished.ok()) << finished.ToString();
    arena_.emplace(OrDie(Buffer::Allocate(dry_arena.peak())));
    exec_.emplace(On(*backend_, *arena_));
    pass_.emplace(*exec_, *model_, *this);
    graph_ = OrDie(backend_->ops().stream().Capture([this] { pass_->Run(*exec_); }));
    Run();  // touches the memory
  }

  void Run() {
    graph_->Replay();
    const absl::Status status = backend_->ops().stream().Synchronize();
    KINORA_CHECK(status.ok()) << status.ToString();
  }
  double flops() const { return flops_; }

 private:
  // One guidance pass, as the denoising loop runs it.
  struct Pass {
    Pass(Exec& exec, const Transformer& transformer, const Rank& rank) {
      const TransformerConfig& config = rank.config_;
      VelocityInputs inputs;
      inputs.of.video.positions.assign(3, std::vector<float>(rank.video_tokens_, 0.5f));
      inputs.of.audio.positions.assign(1, std::vector<float>(kAudioTokens, 0.5f));
      inputs.of.video.sigmas = inputs.of.audio.sigmas = {0.7f};
      const auto filled = [&](DType dtype, int64_t rows, int64_t width) {
        const Tensor x = exec.arena.Alloc(dtype, {rows, width});
        exec.ops.Fill(0.1f, x);
        return x;
      };
      inputs.cond = {.video = filled(DType::kBF16, kTextRows, config.video.context_width),
                     .audio = filled(DType::kBF16, kTextRows, config.audio.context_width)};
      model = OrDie(VelocityModel::Prepare(exec, transformer, inputs));
      z = {filled(DType::kF32, model->rows().video, config.video.in_channels),
           filled(DType::kF32, kAudioTokens, config.audio.in_channels)};
      v = {filled(DType::kF32, rank.video_tokens_, config.video.out_channels),
           filled(DType::kF32, kAudioTokens, config.audio.out_channels)};
      const Tensor step = exec.arena.Alloc(DType::kI32, {1});
      const int32_t first = 0;
      exec.ops.stream().CopyFromHost(&first, step);
      model->SelectStep(exec, step);
    }
    void Run(Exec& exec) const { model->Forward(exec, {}, z, v); }
    std::optional<VelocityModel> model;
    PerModality<Tensor> z, v;
  };

  Exec On(Backend& backend, Arena& arena) const {
    return {.backend = backend, .arena = arena, .host = arena, .mesh = *mesh_, .dtype = DType::kBF16};
  }

  // All its tensors, drawn once.
  static std::shared_ptr<const Checkpoint> WholeModel(const TransformerConfig& config) {
    static const std::shared_ptr<const Checkpoint> whole = [&] {
      DryBackend dry;
      const auto alone = Mesh::Single();
      WeightLoader recorded = WeightLoader::Dry(*alone, dry, DType::kBF16);
      OrDie(Transformer::Load(recorded.Under("transformer"), config));
      ModelFiles files;
      files.paths = {std::filesystem::temp_directory_path() /
                     ("ranks_bench." + std::to_string(getpid()) + ".safetensors")};
      std::vector<RecordedTensor> tensors = recorded.recorded();
      for (RecordedTensor& tensor : tensors) {  // under the names of a checkpoint in one file
        tensor.name = "model.diffusion_model." + tensor.name.substr(std::string("transformer.").size());
      }
      KINORA_CHECK(WriteRandomCheckpoint(files.paths[0], tensors).ok()) << files.paths[0];
      auto checkpoint = OrDie(Checkpoint::Open(files));
      std::filesystem::remove(files.paths[0]);
      return checkpoint;
    }();
    return whole;
  }

  const std::unique_ptr<Mesh> mesh_;
  const TransformerConfig config_;
  const int64_t video_tokens_;
  double flops_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> model_;
  std::optional<Arena> arena_;
  std::optional<Exec> exec_;
  std::optional<Pass> pass_;
  std::unique_ptr<Graph> graph_;
};

void Compare(Rank& alone, const MeshShape& shape, int64_t video_tokens, int threads, int pairs) {
  Rank rank(shape, MiddleSize(), video_tokens, threads);
  const double share = rank.flops() / alone.flops();
  std::vector<Times> of_alone, of_rank;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    of_alone.push_back(Measure([&] { alone.Run(); }));
    of_rank.push_back(Measure([&] { rank.Run(); }));
    ratios.push_back(of_rank.back().processor / of_alone.back().processor / share);
  }
  std::printf("%-10s %6lld %9.4f %9.4f %8.3f %8.3f %8.3f\n", shape.ToString().c_str(),
              static_cast<long long>(video_tokens), Medians(of_alone).processor, Medians(of_rank).processor, share,
              share * shape.ranks(), Median(ratios));
  std::fflush(stdout);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  using namespace kinora;  // NOLINT(google-build-using-namespace)
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, pairs = argc > 2 ? std::atoi(argv[2]) : 5;
  std::vector<int64_t> sizes;
  for (int i = 3; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {1536, 6144};
  std::puts(
      "processor seconds: a rank alone, a rank of the mesh; share of the operations, times ranks; time per share");
  for (const int64_t tokens : sizes) {
    Rank alone({}, MiddleSize(), tokens, threads);
    for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.tokens = 4}, MeshShape{.tokens = 8},
                                   MeshShape{.tensor = 2}, MeshShape{.tensor = 4}}) {
      Compare(alone, shape, tokens, threads, pairs);
    }
  }
  return 0;
}
