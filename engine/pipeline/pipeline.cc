#include "engine/pipeline/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/model/config_reader.h"
#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/dry_ops.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/generation.h"

namespace kinora {
namespace {

// What the files say of the model, or the caller if they say nothing.
std::string KindOf(const ModelFiles& files, const ModelConfig& config) {
  if (files.kind != ModelFiles::Kind::kUnknown) return files.kind == ModelFiles::Kind::kDev ? "dev" : "distilled";
  if (config.scheduler.kind == SchedulerConfig::Kind::kUnknown) return "";
  return config.scheduler.kind == SchedulerConfig::Kind::kDev ? "dev" : "distilled";
}

// The model without memory: shapes of weights and activations only. Made once, then read by any thread.
class DryModel {
 public:
  static absl::StatusOr<DryModel> Make(const ModelConfig& config, const Mesh& mesh, DType precision) {
    DryModel model;
    KINORA_ASSIGN_OR_RETURN(model.mesh_, MakeDryMesh(mesh.shape(), mesh.world().rank()));
    DryOps ops;
    const WeightLoader loader = WeightLoader::Dry(*model.mesh_, ops, precision);
    KINORA_ASSIGN_OR_RETURN(model.modules_, Modules::Load(loader, config, ops, {.sound = mesh.world().rank() == 0},
                                                          [](std::string_view) {}));
    model.weight_bytes_ = ops.weight_bytes() + loader.tensor_bytes();
    model.precision_ = precision;
    return model;
  }

  // tokenizer: null for the cost with the longest prompts. phase_flops, if not null: at the start of each phase, and at
  // the end.
  absl::StatusOr<RequestCost> Measure(const ModelConfig& config, const GenerationRequest& request,
                                      const Tokenizer* tokenizer, std::array<double, kPhases + 1>* phase_flops) const {
    std::optional<std::array<int64_t, 2>> tokens;
    if (tokenizer != nullptr) {
      const int64_t rows = config.connector.rows;
      KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                              tokenizer->Encode(StripWhiteSpace(request.prompt), rows));
      KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> negative,
                              tokenizer->Encode(StripWhiteSpace(request.negative_prompt.value_or("")), rows));
      tokens = {static_cast<int64_t>(prompt.size()), static_cast<int64_t>(negative.size())};
    }
    DryOps ops;
    Arena arena = Arena::Dry();
    // Counting communicators are per run, so that several threads may measure at once.
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(mesh_->shape(), mesh_->world().rank()));
    Exec exec{.ops = ops, .arena = arena, .mesh = *mesh, .dtype = precision_};
    std::array<double, kPhases + 1> begin{};
    Generation generation(config, modules_, request, nullptr, tokens);
    KINORA_RETURN_IF_ERROR(generation.Run(exec, [&](Phase phase, int64_t step, int64_t) {
      if (step == 0) begin[static_cast<int>(phase)] = ops.cost().flops();
      return absl::OkStatus();
    }));
    begin[kPhases] = ops.cost().flops();
    for (int i = kPhases - 1; i > 0; --i) {  // ranks other than 0 report none
      if (begin[i] == 0) begin[i] = begin[i + 1];
    }
    if (phase_flops != nullptr) *phase_flops = begin;
    const int denoise = static_cast<int>(Phase::kDenoise);
    return RequestCost{.arena_bytes = arena.peak(),
                       .weight_bytes = weight_bytes_,
                       .flops = begin[kPhases],
                       .denoise_flops = begin[denoise + 1] - begin[denoise]};
  }

 private:
  std::unique_ptr<Mesh> mesh_;
  Modules modules_;
  int64_t weight_bytes_ = 0;
  DType precision_ = DType::kF32;
};

// From phases and steps to a fraction that never falls, by the share of operations that lies behind.
class ProgressReporter {
 public:
  ProgressReporter(const std::array<double, kPhases + 1>& flops, absl::FunctionRef<absl::Status(const Progress&)> sink)
      : flops_(flops), sink_(sink), start_(Clock::Real().Now()) {}

  absl::Status Report(Phase phase, int64_t step, int64_t total) {
    const int i = static_cast<int>(phase);
    const double within = total > 0 ? static_cast<double>(step) / static_cast<double>(total) : 0;
    fraction_ = std::max(fraction_, (flops_[i] + within * (flops_[i + 1] - flops_[i])) / flops_[kPhases]);
    const double elapsed = absl::ToDoubleSeconds(Clock::Real().Now() - start_);
    return sink_({.stage = std::string(PhaseName(phase)),
                  .step = static_cast<int32_t>(step),
                  .total_steps = static_cast<int32_t>(total),
                  .fraction = fraction_,
                  .remaining_seconds = fraction_ > 0.02 ? elapsed * (1 - fraction_) / fraction_ : -1});
  }

 private:
  const std::array<double, kPhases + 1> flops_;
  const absl::FunctionRef<absl::Status(const Progress&)> sink_;
  const absl::Time start_;
  double fraction_ = 0;
};

}  // namespace

struct Pipeline::Parts {
  PipelineOptions options;
  const Mesh& mesh;
  ModelConfig config;
  ModelDescription description;
  std::unique_ptr<CpuOps> ops;
  Arena arena;
  Modules modules;
  DryModel dry;

  // Largest number of video tokens whose plan fits, along clips of growing length at the default size and then of
  // growing size; 0: no request within the other limits is too large.
  absl::StatusOr<int64_t> MaxTokens() const;
};

Pipeline::Pipeline(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Pipeline::~Pipeline() = default;
const ModelConfig& Pipeline::config() const { return parts_->config; }
const ModelDescription& Pipeline::description() const { return parts_->description; }
int64_t Pipeline::peak_arena_bytes() const { return parts_->arena.peak(); }

absl::StatusOr<int64_t> Pipeline::Parts::MaxTokens() const {
  const ModelDescription& d = description;
  GenerationRequest wanted = d.defaults;
  wanted.recipe = d.kind == "distilled" ? Recipe::kDistilled : Recipe::kOneStage;
  wanted.num_inference_steps = 0;
  wanted.sigmas = {1.0, 0.0};  // one step shows what every step needs
  if (wanted.recipe == Recipe::kDistilled) {
    wanted.video_guidance.reset();
    wanted.audio_guidance.reset();
  }
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ResolveRequest(d, wanted));
  const int64_t longest = (d.max_frames - 1) / d.frame_multiple + 1;
  const int64_t widest =
      std::max((d.max_width - request.width) / d.size_multiple, (d.max_height - request.height) / d.size_multiple);
  const auto clip =
      [&](int64_t i) {  // 1 … longest: latent frames; beyond: one more cell each way, up to the largest sides
        GenerationRequest r = request;
        r.num_frames = static_cast<int32_t>((std::min(i, longest) - 1) * d.frame_multiple + 1);
        const int32_t more = static_cast<int32_t>(std::max<int64_t>(0, i - longest)) * d.size_multiple;
        r.width = std::min(r.width + more, d.max_width);
        r.height = std::min(r.height + more, d.max_height);
        return r;
      };
  int64_t fits = 0, beyond = longest + widest + 1;
  while (beyond - fits > 1) {
    const int64_t middle = (fits + beyond) / 2;
    KINORA_ASSIGN_OR_RETURN(const RequestCost cost, dry.Measure(config, clip(middle), nullptr, nullptr));
    (cost.arena_bytes <= options.arena_bytes ? fits : beyond) = middle;
  }
  if (fits == longest + widest) return 0;
  const GenerationRequest largest = clip(std::max<int64_t>(1, fits));
  return GridOf(largest.num_frames, largest.height, largest.width, ScaleOf(config)).tokens();
}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Load(const PipelineOptions& options, const Mesh& mesh,
                                                         absl::FunctionRef<void(std::string_view phase)> on_phase) {
  TraceSpan span("stage", "load");
  on_phase("read config");
  KINORA_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(options.files));
  KINORA_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(*checkpoint));
  ModelDescription description = Describe(config, KindOf(options.files, config));
  if (checkpoint->tokenizer_model().empty()) {
    return absl::InvalidArgumentError(
        "model: no tokenizer.model; it belongs in the text encoder's folder (--model text_encoder=DIR)");
  }
  Modules::Options parts_options{.text_cache_bytes = options.text_cache_bytes, .sound = mesh.world().rank() == 0};
  KINORA_ASSIGN_OR_RETURN(parts_options.tokenizer, Tokenizer::Load(checkpoint->tokenizer_model()));
  KINORA_ASSIGN_OR_RETURN(DryModel dry, DryModel::Make(config, mesh, options.precision));
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CpuOps> ops, CpuOps::Create(options.threads));
  KINORA_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(options.arena_bytes, "activations"));
  KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint, mesh, *ops, options.precision));
  KINORA_ASSIGN_OR_RETURN(Modules modules, Modules::Load(loader, config, *ops, std::move(parts_options), on_phase));
  KINORA_RETURN_IF_ERROR(loader.Finish());
  std::unique_ptr<Parts> parts(new Parts{.options = options,
                                         .mesh = mesh,
                                         .config = std::move(config),
                                         .description = std::move(description),
                                         .ops = std::move(ops),
                                         .arena = Arena(std::move(memory)),
                                         .modules = std::move(modules),
                                         .dry = std::move(dry)});
  KINORA_ASSIGN_OR_RETURN(parts->description.max_tokens, parts->MaxTokens());
  return std::unique_ptr<Pipeline>(new Pipeline(std::move(parts)));
}

absl::StatusOr<RequestCost> Pipeline::Plan(const PipelineOptions& options, const Mesh& mesh,
                                           const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(options.files));
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved,
                          ResolveRequest(Describe(config, KindOf(options.files, config)), request));
  KINORA_ASSIGN_OR_RETURN(const DryModel dry, DryModel::Make(config, mesh, options.precision));
  std::unique_ptr<const Tokenizer> tokenizer;
  if (!checkpoint->tokenizer_model().empty()) {
    KINORA_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(checkpoint->tokenizer_model()));
  }
  KINORA_ASSIGN_OR_RETURN(RequestCost cost, dry.Measure(config, resolved, tokenizer.get(), nullptr));
  cost.workspace_bytes = options.threads * kWorkspaceBytes + options.text_cache_bytes;
  return cost;
}

absl::StatusOr<RequestCost> Pipeline::EstimateCost(const GenerationRequest& request) const {
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(parts_->description, request));
  KINORA_ASSIGN_OR_RETURN(RequestCost cost,
                          parts_->dry.Measure(parts_->config, resolved, &parts_->modules.text->tokenizer(), nullptr));
  cost.workspace_bytes = parts_->options.threads * kWorkspaceBytes + parts_->options.text_cache_bytes;
  return cost;
}

absl::Status Pipeline::Generate(const GenerationRequest& request, ClipSink& sink,
                                absl::FunctionRef<absl::Status(const Progress&)> on_progress) {
  Parts& p = *parts_;
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(p.description, request));
  std::array<double, kPhases + 1> flops{};
  KINORA_ASSIGN_OR_RETURN(const RequestCost cost,
                          p.dry.Measure(p.config, resolved, &p.modules.text->tokenizer(), &flops));
  if (cost.arena_bytes > p.options.arena_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("width, height, num_frames: ", resolved.width, "x", resolved.height, " with ", resolved.num_frames,
                     " frames needs ", cost.arena_bytes, " bytes for activations, and ", p.options.arena_bytes,
                     " are reserved; make the clip smaller or shorter"));
  }
  Exec exec{.ops = *p.ops, .arena = p.arena, .mesh = p.mesh, .dtype = p.options.precision};
  const bool first = p.mesh.world().rank() == 0;
  p.arena.ResetPeak();
  ProgressReporter reporter(flops, on_progress);
  Generation generation(p.config, p.modules, resolved, first ? &sink : nullptr);
  return generation.Run(exec,
                        [&](Phase phase, int64_t step, int64_t total) { return reporter.Report(phase, step, total); });
}

}  // namespace kinora
