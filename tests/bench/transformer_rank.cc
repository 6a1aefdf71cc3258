#include "tests/bench/transformer_rank.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/velocity_model.h"
#include "tests/bench/or_die.h"
#include "tests/bench/random_checkpoint.h"

namespace kinora {
namespace {

constexpr int64_t kTextRows = 1024, kAudioTokens = 126;

TransformerConfig MiddleSize() {
  TransformerConfig config{.layers = 6, .gated_attention = true, .cross_attention_adaln = true};
  config.video.heads = config.audio.heads = 8;
  config.video.context_width = config.video.width();
  config.audio.context_width = config.audio.width();
  config.caption_projection = false;
  return config;
}

// All of the model's tensors, drawn once.
std::shared_ptr<const Checkpoint> WholeModel(const TransformerConfig& config) {
  static const std::shared_ptr<const Checkpoint> whole = [&] {
    DryBackend dry;
    const auto alone = Mesh::Single();
    WeightLoader recorded = WeightLoader::Dry(*alone, dry, DType::kBF16);
    OrDie(Transformer::Load(recorded.Under("transformer"), config));
    ModelFiles files;
    files.paths = {std::filesystem::temp_directory_path() /
                   ("transformer_rank." + std::to_string(getpid()) + ".safetensors")};
    std::vector<RecordedTensor> tensors = recorded.recorded();
    for (RecordedTensor& tensor : tensors) {  // with the names of a single-file checkpoint
      tensor.name = "model.diffusion_model." + tensor.name.substr(std::string("transformer.").size());
    }
    KINORA_CHECK(WriteRandomCheckpoint(files.paths[0], tensors).ok()) << files.paths[0];
    auto checkpoint = OrDie(Checkpoint::Open(files));
    std::filesystem::remove(files.paths[0]);
    return checkpoint;
  }();
  return whole;
}

}  // namespace

// One guidance pass, run as in the denoising loop.
struct TransformerRank::Pass {
  Pass(Exec& exec, const Transformer& transformer, int64_t video_tokens) {
    const TransformerConfig config = MiddleSize();
    VelocityInputs inputs;
    inputs.of.video.positions.assign(3, std::vector<float>(video_tokens, 0.5f));
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
    v = {filled(DType::kF32, video_tokens, config.video.out_channels),
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

TransformerRank::TransformerRank(const Mesh& mesh, int64_t video_tokens, int threads)
    : mesh_(mesh), video_tokens_(video_tokens) {
  const TransformerConfig config = MiddleSize();
  DryBackend dry;
  const auto peerless = OrDie(MakeDryMesh(mesh.shape(), mesh.world().rank()));
  WeightLoader recorded = WeightLoader::Dry(*peerless, dry, DType::kBF16);
  const auto dry_model = OrDie(Transformer::Load(recorded.Under("transformer"), config));
  Arena dry_arena = Arena::Dry();
  Exec dry_exec = {.backend = dry, .arena = dry_arena, .host = dry_arena, .mesh = *peerless, .dtype = DType::kBF16};
  const Pass dry_pass(dry_exec, *dry_model, video_tokens_);
  dry.ops().ResetCost();
  dry_pass.Run(dry_exec);
  flops_ = static_cast<double>(dry.ops().cost().flops());

  backend_ = OrDie(OpenBackend("cpu", {.threads = threads}));
  WeightLoader weights = OrDie(WeightLoader::Open(WholeModel(config), mesh_, *backend_, DType::kBF16));
  model_ = OrDie(Transformer::Load(weights.Under("transformer"), config));
  const absl::Status finished = weights.Finish();
  KINORA_CHECK(finished.ok()) << finished.ToString();
  arena_.emplace(OrDie(Buffer::Allocate(dry_arena.peak())));
  exec_.emplace(On(*backend_, *arena_));
  pass_ = std::make_unique<Pass>(*exec_, *model_, video_tokens_);
  graph_ = OrDie(backend_->ops().stream().Capture([this] { pass_->Run(*exec_); }));
  Run();  // touches the memory
}

TransformerRank::~TransformerRank() = default;

void TransformerRank::Run() {
  graph_->Replay();
  const absl::Status status = backend_->ops().stream().Synchronize();
  KINORA_CHECK(status.ok()) << status.ToString();
}

Exec TransformerRank::On(Backend& backend, Arena& arena) const {
  return {.backend = backend, .arena = arena, .host = arena, .mesh = mesh_, .dtype = DType::kBF16};
}

}  // namespace kinora
