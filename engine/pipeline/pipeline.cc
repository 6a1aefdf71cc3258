#include "engine/pipeline/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/model/config_reader.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/generation.h"
#include "engine/request/request_rules.h"

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
  static absl::StatusOr<DryModel> Make(const ModelConfig& config, const Mesh& mesh, const BackendTraits& traits,
                                       const Precision& precision) {
    KINORA_RETURN_IF_ERROR(precision.CheckOn(traits));
    DryModel model;
    model.traits_ = traits;
    KINORA_ASSIGN_OR_RETURN(model.mesh_, MakeDryMesh(mesh.shape(), mesh.world().rank()));
    DryBackend backend(traits);
    const WeightLoader loader = WeightLoader::Dry(*model.mesh_, backend, precision);
    KINORA_ASSIGN_OR_RETURN(
        model.modules_, Modules::Load(loader, config, {.sound = mesh.world().rank() == 0}, [](std::string_view) {}));
    model.weight_bytes_ = backend.ops().weight_bytes() + loader.tensor_bytes();
    model.dtype_ = precision.activations;
    return model;
  }

  // request: resolved. tokenizer: null for the cost with the longest prompts.
  absl::StatusOr<RunPlan> Plan(const ModelConfig& config, const ModelDescription& model,
                               const GenerationRequest& request, const Tokenizer* tokenizer,
                               int64_t text_cache_bytes) const {
    const TraceSpan span("plan", "dry_run");
    std::array<int64_t, 2> text_tokens = {modules_.text->rows(), modules_.text->rows()};
    if (tokenizer != nullptr) {
      KINORA_ASSIGN_OR_RETURN(text_tokens, CountTokens(*tokenizer, request));
    }
    KINORA_ASSIGN_OR_RETURN(RunPlan plan, PlanStages(config, model, *modules_.video, request, text_tokens));
    DryBackend backend(traits_);
    const DryOps& ops = backend.ops();
    Arena arena = Arena::Dry(), host = Arena::Dry();
    // Counting communicators are per run, so that several threads may measure at once.
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(mesh_->shape(), mesh_->world().rank()));
    Exec exec{.backend = backend,
              .arena = arena,
              .host = traits_.unified_memory ? arena : host,
              .mesh = *mesh,
              .dtype = dtype_};
    std::vector<Cost> begin;
    StepGraphs graphs;
    KINORA_RETURN_IF_ERROR(Generation(config, modules_, graphs, plan, nullptr, nullptr)
                               .Run(exec, [&](const StagePlan&, int64_t step, const StepLatents*) {
                                 if (step == 0) begin.push_back(ops.cost());
                                 return absl::OkStatus();
                               }));
    begin.push_back(ops.cost());
    for (size_t i = 0; i < plan.stages.size(); ++i) plan.stages[i].cost = Between(begin[i], begin[i + 1]);
    plan.arena_bytes = arena.peak();
    plan.host_arena_bytes = host.peak();
    plan.weight_bytes = weight_bytes_;
    plan.workspace_bytes = traits_.workspace_bytes + text_cache_bytes;
    return plan;
  }

 private:
  absl::StatusOr<std::array<int64_t, 2>> CountTokens(const Tokenizer& tokenizer,
                                                     const GenerationRequest& request) const {
    const int64_t rows = modules_.text->rows();
    KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, tokenizer.Encode(StripWhiteSpace(request.prompt), rows));
    KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> negative,
                            tokenizer.Encode(StripWhiteSpace(request.negative_prompt.value_or("")), rows));
    return std::array<int64_t, 2>{static_cast<int64_t>(prompt.size()), static_cast<int64_t>(negative.size())};
  }
  static StageCost Between(const Cost& begin, const Cost& end) {
    return {.flops = end.flops() - begin.flops(),
            .bytes = end.bytes() - begin.bytes(),
            .launches = end.calls() - begin.calls()};
  }

  std::unique_ptr<Mesh> mesh_;
  BackendTraits traits_;
  Modules modules_;
  int64_t weight_bytes_ = 0;
  DType dtype_ = DType::kF32;  // of activations
};

// From stages and steps to a fraction that never falls, by the share of operations that lies behind.
class ProgressReporter {
 public:
  ProgressReporter(const RunPlan& plan, RunObserver* observer)
      : plan_(plan), flops_(plan.flops()), observer_(observer), start_(Clock::Real().Now()) {}

  absl::Status Report(const StagePlan& stage, int64_t step, const StepLatents* latents) {
    if (observer_ == nullptr) return absl::OkStatus();
    double behind = 0;
    for (const StagePlan* s = plan_.stages.data(); s != &stage; ++s) behind += s->cost.flops;
    if (stage.steps > 0) behind += stage.cost.flops * static_cast<double>(step) / static_cast<double>(stage.steps);
    fraction_ = std::max(fraction_, behind / flops_);
    const double elapsed = absl::ToDoubleSeconds(Clock::Real().Now() - start_);
    const Progress progress{.stage = stage.label,
                            .step = static_cast<int32_t>(step),
                            .total_steps = static_cast<int32_t>(stage.steps),
                            .fraction = fraction_,
                            .remaining_seconds = fraction_ > 0.02 ? elapsed * (1 - fraction_) / fraction_ : -1};
    return step == 0 ? observer_->OnStage(progress) : observer_->OnStep(progress, latents);
  }

 private:
  const RunPlan& plan_;
  const double flops_;
  RunObserver* const observer_;
  const absl::Time start_;
  double fraction_ = 0;
};

absl::Status CheckReserved(const GenerationRequest& request, int64_t needed, int64_t reserved, std::string_view what) {
  if (needed <= reserved) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "width, height, num_frames: ", request.width, "x", request.height, " with ", request.num_frames, " frames needs ",
      needed, " bytes for ", std::string(what), ", and ", reserved, " are reserved; make the clip smaller or shorter"));
}

}  // namespace

struct Pipeline::Parts {
  PipelineOptions options;
  const Mesh& mesh;
  ModelConfig config;
  ModelDescription description;
  std::unique_ptr<Backend> backend;
  Arena arena;
  std::optional<Arena> host;  // absent: `arena` serves as both
  Modules modules;
  DryModel dry;
  StepGraphs graphs{};
};

Pipeline::Pipeline(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Pipeline::~Pipeline() = default;
const ModelConfig& Pipeline::config() const { return parts_->config; }
const ModelDescription& Pipeline::description() const { return parts_->description; }
int64_t Pipeline::peak_arena_bytes() const { return parts_->arena.peak(); }
int64_t Pipeline::captures() const { return parts_->graphs.captures(); }

absl::StatusOr<int64_t> Pipeline::MaxTokens() const {
  const ModelDescription& model = parts_->description;
  const RecipeDescription* own = model.Find(model.default_recipe, "");
  const RecipeDescription& d = own != nullptr ? *own : model.recipes[0];
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ResolveRequest(model, {.recipe = d.recipe}));
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
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, parts_->dry.Plan(parts_->config, model, clip(middle), nullptr,
                                                                 parts_->options.text_cache_bytes));
    const PipelineOptions& reserved = parts_->options;
    const bool fit = plan.arena_bytes <= reserved.arena_bytes && plan.host_arena_bytes <= reserved.host_arena_bytes;
    (fit ? fits : beyond) = middle;
  }
  if (fits == longest + widest) return 0;
  const GenerationRequest largest = clip(std::max<int64_t>(1, fits));
  return model.VideoTokens(largest.num_frames, largest.height, largest.width);
}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Load(const PipelineOptions& options, const Mesh& mesh,
                                                         absl::FunctionRef<void(std::string_view phase)> on_phase) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend(options.device, {.threads = options.threads}));
  return LoadOn(std::move(backend), options, mesh, on_phase);
}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::LoadOn(std::unique_ptr<Backend> backend,
                                                           const PipelineOptions& options, const Mesh& mesh,
                                                           absl::FunctionRef<void(std::string_view phase)> on_phase) {
  const TraceSpan span("load", "pipeline");
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
  KINORA_ASSIGN_OR_RETURN(DryModel dry, DryModel::Make(config, mesh, backend->traits(), options.precision));
  // At least the word that ranks agree by, so that a run that does not fit ends as one on all of them.
  const int64_t arena_bytes = std::max(options.arena_bytes, kAgreementBytes);
  KINORA_ASSIGN_OR_RETURN(Buffer memory, backend->Allocate(arena_bytes, "activations"));
  std::optional<Arena> host;
  if (!backend->traits().unified_memory) {
    KINORA_ASSIGN_OR_RETURN(Buffer pinned,
                            backend->AllocateHost(options.host_arena_bytes, "the host's side of copies"));
    host.emplace(std::move(pinned));
  }
  KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint, mesh, *backend, options.precision));
  KINORA_ASSIGN_OR_RETURN(Modules modules, Modules::Load(loader, config, std::move(parts_options), on_phase));
  KINORA_RETURN_IF_ERROR(loader.Finish());
  std::unique_ptr<Parts> parts(new Parts{.options = options,
                                         .mesh = mesh,
                                         .config = std::move(config),
                                         .description = std::move(description),
                                         .backend = std::move(backend),
                                         .arena = Arena(std::move(memory)),
                                         .host = std::move(host),
                                         .modules = std::move(modules),
                                         .dry = std::move(dry)});
  return std::unique_ptr<Pipeline>(new Pipeline(std::move(parts)));
}

absl::StatusOr<RunPlan> Pipeline::Plan(const PipelineOptions& options, const Mesh& mesh,
                                       const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {.threads = options.threads}));
  return PlanOn(traits, options, mesh, request);
}

absl::StatusOr<RunPlan> Pipeline::PlanOn(const BackendTraits& traits, const PipelineOptions& options, const Mesh& mesh,
                                         const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(options.files));
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
  const ModelDescription model = Describe(config, KindOf(options.files, config));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(model, request));
  KINORA_ASSIGN_OR_RETURN(const DryModel dry, DryModel::Make(config, mesh, traits, options.precision));
  std::unique_ptr<const Tokenizer> tokenizer;
  if (!checkpoint->tokenizer_model().empty()) {
    KINORA_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(checkpoint->tokenizer_model()));
  }
  return dry.Plan(config, model, resolved, tokenizer.get(), options.text_cache_bytes);
}

absl::StatusOr<RunPlan> Pipeline::Prepare(const GenerationRequest& request) const {
  const Parts& p = *parts_;
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(p.description, request));
  return p.dry.Plan(p.config, p.description, resolved, &p.modules.text->tokenizer(), p.options.text_cache_bytes);
}

absl::Status Pipeline::Generate(const RunPlan& plan, ClipSink* sink, RunObserver* observer) {
  Parts& p = *parts_;
  const GenerationRequest& request = plan.request;
  absl::Status fits = CheckReserved(request, plan.arena_bytes, p.options.arena_bytes, "activations");
  fits.Update(CheckReserved(request, plan.host_arena_bytes, p.options.host_arena_bytes, "activations in host memory"));
  KINORA_CHECK((sink != nullptr) == (p.mesh.world().rank() == 0)) << "rank " << p.mesh.world().rank();
  Exec exec{.backend = *p.backend,
            .arena = p.arena,
            .host = p.host.has_value() ? *p.host : p.arena,
            .mesh = p.mesh,
            .dtype = p.options.precision.activations};
  KINORA_RETURN_IF_ERROR(AgreeAmongAll(exec, fits));  // ranks may have their own plans: rank 0 decodes and needs more
  p.arena.ResetPeak();
  ProgressReporter reporter(plan, observer);
  Generation generation(p.config, p.modules, p.graphs, plan, sink, sink != nullptr ? observer : nullptr);
  return generation.Run(exec, [&](const StagePlan& stage, int64_t step, const StepLatents* latents) {
    return reporter.Report(stage, step, latents);
  });
}

}  // namespace kinora
