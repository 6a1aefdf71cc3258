#include "engine/pipeline/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/trace.h"
#include "engine/config/checkpoint_parts.h"
#include "engine/config/config_reader.h"
#include "engine/config/released_models.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/gather_trace.h"
#include "engine/pipeline/dry_model.h"
#include "engine/pipeline/generation.h"
#include "engine/pipeline/lora_list.h"
#include "engine/pipeline/memory_plan.h"
#include "engine/request/request_rules.h"
#include "engine/request/upscaling.h"

namespace kinora {
namespace {

// The kind of model that the caller specified or, if none, the one that the scheduler's configuration implies.
std::string KindOf(const ModelFiles& files, const ModelConfig& config) {
  if (files.kind != ModelFiles::Kind::kUnknown) return files.kind == ModelFiles::Kind::kDev ? "dev" : "distilled";
  if (config.scheduler.kind == SchedulerConfig::Kind::kUnknown) return "";
  return config.scheduler.kind == SchedulerConfig::Kind::kDev ? "dev" : "distilled";
}

absl::Status Tell(RunObserver* observer, const StagePlan& stage, int64_t step, const StepLatents* latents) {
  if (observer == nullptr) return absl::OkStatus();
  if (step == Generation::kLorasGoOn) return observer->OnStage({.stage = kPutOnLoras});
  const Progress progress{
      .stage = stage.stage(), .step = static_cast<int32_t>(step), .total_steps = static_cast<int32_t>(stage.steps)};
  return step == 0 ? observer->OnStage(progress) : observer->OnStep(progress, latents);
}

DryModel::Options DryOptions(const PipelineOptions& options, const BackendTraits& traits) {
  return {.traits = traits,
          .precision = options.precision,
          .text_cache_bytes = options.text_cache_bytes,
          .text_encoder = options.text_encoder,
          .modalities = options.modalities,
          .decoder_border = options.decoder_border,
          .untiled_decode = options.untiled_decode};
}

Modules::Options ModuleOptions(const PipelineOptions& options, const Mesh& mesh) {
  return {.lora_cache = options.lora_cache,
          .text_cache_bytes = options.text_cache_bytes,
          .text_encoder = options.text_encoder,
          .modalities = options.modalities,
          .decoder_border = options.decoder_border,
          .rank_zero = mesh.world().rank() == 0};
}

// A model without its weights: everything that headers and configuration contain.
struct OpenedModel {
  std::shared_ptr<const Checkpoint> checkpoint;  // null: a released model without its files
  Loras loras;
  ModelConfig config;
  ModelDescription description;
  absl::StatusOr<DryModel> Dry(const PipelineOptions& options, const Mesh& mesh, const BackendTraits& traits) const {
    return DryModel::Make(config, description, mesh, DryOptions(options, traits));
  }
  // Its plans list the one-time work of `backend`, which must outlive it.
  absl::StatusOr<DryModel> DryFor(const Backend& backend, const PipelineOptions& options, const Mesh& mesh) const {
    DryModel::Options dry = DryOptions(options, backend.traits());
    if (const auto* const ahead = dynamic_cast<const WorksAhead*>(&backend)) {
      dry.make_listing = [ahead] { return ahead->MakeListing(); };
    }
    return DryModel::Make(config, description, mesh, dry);
  }
};

absl::StatusOr<std::optional<UpsamplerConfig>> OpenUpsampler(const Checkpoint& checkpoint, const ModelConfig& config,
                                                             std::string_view component) {
  if (!checkpoint.upsampler_configs().contains(component)) return std::nullopt;
  KINORA_ASSIGN_OR_RETURN(const UpsamplerConfig upsampler, ReadUpsamplerConfig(checkpoint, component));
  const std::string_view name = UpscalingOf(upsampler);
  if (name.empty() || name.starts_with("temporal") != component.starts_with("temporal")) {
    return absl::UnimplementedError(Cat("model ", component, ": its factors are ", upsampler.space_up, "/",
                                        upsampler.space_down, " of the sides and ", upsampler.time_up,
                                        " of the frames; known are ", kUpscalings));
  }
  if (upsampler.latent_channels == config.transformer.video.in_channels) return upsampler;
  return absl::InvalidArgumentError(Cat("model ", component, ": made for latents of ", upsampler.latent_channels,
                                        " channels, this model has ", config.transformer.video.in_channels));
}

void LeaveOut(const PipelineOptions& options, ModelConfig& config) {
  if (options.inputs) return;
  config.video_encoder.unavailable = config.audio_encoder.unavailable = "not loaded";
}

absl::StatusOr<OpenedModel> OpenModel(const PipelineOptions& options) {
  OpenedModel model;
  if (!options.released.empty()) {
    KINORA_ASSIGN_OR_RETURN(model.config, ReleasedModelConfig(options.released));
    LeaveOut(options, model.config);
    model.description = Describe(model.config, {.kind = "dev"});  // includes the recipes of both kinds
    model.description.makes_video = options.modalities == Modalities::kBoth;
    return model;
  }
  const ModelFiles& files = options.files;
  KINORA_ASSIGN_OR_RETURN(model.checkpoint, Checkpoint::Open(files));
  KINORA_RETURN_IF_ERROR(CheckPartsArePresent(*model.checkpoint, options.modalities == Modalities::kBoth));
  KINORA_ASSIGN_OR_RETURN(model.config, ReadModelConfig(*model.checkpoint));
  KINORA_ASSIGN_OR_RETURN(model.config.spatial_upsampler,
                          OpenUpsampler(*model.checkpoint, model.config, "spatial_upsampler"));
  KINORA_ASSIGN_OR_RETURN(model.config.temporal_upsampler,
                          OpenUpsampler(*model.checkpoint, model.config, "temporal_upsampler"));
  LeaveOut(options, model.config);
  KINORA_ASSIGN_OR_RETURN(model.loras, OpenLoras(files, *model.checkpoint));
  const std::string kind = KindOf(files, model.config);
  const bool distilled_lora = !files.distilled_lora.empty();
  if (distilled_lora && kind == "distilled") {
    return absl::InvalidArgumentError("model distilled_lora: the checkpoint is distilled already; leave it out");
  }
  model.description = Describe(model.config, {.kind = kind, .distilled_lora = distilled_lora});
  model.description.makes_video = options.modalities == Modalities::kBoth;
  model.description = LoraList(model.loras, std::move(model.description)).Get()->model;
  return model;
}

// Checks for files that loading needs but planning does not.
absl::Status CheckLoadable(const Checkpoint* checkpoint) {
  if (checkpoint == nullptr) return absl::InvalidArgumentError("model: is a name, and its files are needed");
  if (Tokenizer::IsIn(*checkpoint)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "model: no tokenizer.model or tokenizer.json; it belongs in the text encoder's folder (--model "
      "text_encoder=DIR)");
}

}  // namespace

int RanksPerMemory(const BackendTraits& traits, const Mesh& mesh) {
  return traits.unified_memory ? mesh.world().size() : 1;
}

struct Pipeline::Parts {
  PipelineOptions options;
  const Mesh& mesh;
  ModelConfig config;
  std::shared_ptr<const Checkpoint> checkpoint;
  LoraList loras;
  std::unique_ptr<Backend> backend;
  Arena arena;
  std::optional<Arena> host;  // absent: `arena` serves as both
  Modules modules;
  DryModel dry;
  StepGraphs graphs{};
  RopeTables ropes{};
  std::vector<StageUse> last_run{};

  ReservedMemory Reserved() const {
    return {.arena_bytes = options.arena_bytes, .host_arena_bytes = options.host_arena_bytes};
  }
  absl::Status CheckFits(const RunPlan& plan) const;
  Exec MakeExec() {
    return {.backend = *backend,
            .arena = arena,
            .host = host.has_value() ? *host : arena,
            .mesh = mesh,
            .dtype = options.precision.activations};
  }
};

absl::Status Pipeline::Parts::CheckFits(const RunPlan& plan) const {
  if (Reserved().Holds(plan)) return absl::OkStatus();
  const GenerationRequest& r = plan.request;
  KINORA_ASSIGN_OR_RETURN(const auto nearest, kinora::NearestThatFits(dry, Reserved(), r));
  return absl::ResourceExhaustedError(absl::StrCat(
      "width, height, num_frames: ", r.width, "x", r.height, " with ", r.num_frames, " frames needs ", plan.arena_bytes,
      " bytes for activations and ", plan.host_arena_bytes, " in host memory beside them; ", options.arena_bytes,
      " and ", options.host_arena_bytes, " are reserved; ",
      nearest
          ? absl::StrCat("nearest: ", nearest->width, "x", nearest->height, " with ", nearest->num_frames, " frames")
          : "no size fits",
      plan.untiled_decode ? Cat("; ", kUntiledNeedsMore) : ""));
}

Pipeline::Pipeline(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Pipeline::~Pipeline() = default;
const ModelConfig& Pipeline::config() const { return parts_->config; }
ModelDescription Pipeline::description() const { return parts_->loras.Get()->model; }
Loras Pipeline::loras() const { return parts_->loras.Get()->loras; }
void Pipeline::SetLoras(Loras loras) { parts_->loras.Replace(std::move(loras)); }
absl::StatusOr<std::shared_ptr<const Lora>> Pipeline::OpenLora(std::shared_ptr<const SafetensorsFile> file,
                                                               LoraOptions options) const {
  return Lora::Open(std::move(file), *parts_->checkpoint, std::move(options));
}
CleanMemory Pipeline::clean_weights() const {
  const auto* const keeps = dynamic_cast<const KeepsCleanWeights*>(parts_->backend.get());
  return keeps != nullptr ? keeps->clean_weights() : CleanMemory{};
}
int64_t Pipeline::peak_arena_bytes() const { return parts_->arena.peak(); }
const std::vector<StageUse>& Pipeline::last_run() const { return parts_->last_run; }
int64_t Pipeline::captures() const { return parts_->graphs.captures(); }
int64_t Pipeline::rope_tables_made() const { return parts_->ropes.made(); }

absl::StatusOr<int64_t> Pipeline::MaxTokens() const { return kinora::MaxTokens(parts_->dry, parts_->Reserved()); }
absl::StatusOr<int32_t> Pipeline::MostFrames(const GenerationRequest& request) const {
  return kinora::MostFrames(parts_->dry, parts_->Reserved(), request);
}
absl::StatusOr<std::optional<ClipShape>> Pipeline::NearestThatFits(const GenerationRequest& request) const {
  return kinora::NearestThatFits(parts_->dry, parts_->Reserved(), request);
}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Load(const PipelineOptions& options, const Mesh& mesh,
                                                         absl::FunctionRef<void(std::string_view phase)> on_phase) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                          OpenBackend(options.device, {.threads = options.threads, .cuda = options.cuda}));
  return LoadOn(std::move(backend), options, mesh, on_phase);
}

namespace {

void KeepCleanWeights(Backend& backend, const CleanMemory& most) {
  if (auto* const keeps = dynamic_cast<KeepsCleanWeights*>(&backend)) keeps->KeepCleanWeights(most);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::LoadOn(std::unique_ptr<Backend> backend,
                                                           const PipelineOptions& options, const Mesh& mesh,
                                                           absl::FunctionRef<void(std::string_view phase)> on_phase) {
  const TraceSpan span("load", "load");
  on_phase("read config");
  KINORA_ASSIGN_OR_RETURN(OpenedModel model, OpenModel(options));
  const Checkpoint* const checkpoint = model.checkpoint.get();
  KINORA_RETURN_IF_ERROR(CheckLoadable(checkpoint));
  Modules::Options parts_options = ModuleOptions(options, mesh);
  KINORA_ASSIGN_OR_RETURN(parts_options.tokenizer, Tokenizer::LoadFrom(*checkpoint));
  KINORA_ASSIGN_OR_RETURN(DryModel dry, model.DryFor(*backend, options, mesh));
  // At least the memory of an agreement, so that all ranks can agree to reject a run that does not fit.
  const int64_t arena_bytes = std::max(options.arena_bytes, kAgreementBytes);
  KINORA_ASSIGN_OR_RETURN(Buffer memory, backend->Allocate(arena_bytes, "activations"));
  std::optional<Arena> host;
  if (!backend->traits().unified_memory) {
    KINORA_ASSIGN_OR_RETURN(Buffer pinned,
                            backend->AllocateHost(options.host_arena_bytes, "the host's side of copies"));
    host.emplace(std::move(pinned));
  }
  KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(model.checkpoint, mesh, *backend, options.precision));
  KINORA_ASSIGN_OR_RETURN(Modules modules, Modules::Load(loader, model.config, std::move(parts_options), on_phase));
  KINORA_RETURN_IF_ERROR(loader.Finish());
  KeepCleanWeights(*backend, options.clean_weights);
  std::unique_ptr<Parts> parts(new Parts{.options = options,
                                         .mesh = mesh,
                                         .config = std::move(model.config),
                                         .checkpoint = model.checkpoint,
                                         .loras{std::move(model.loras), std::move(model.description)},
                                         .backend = std::move(backend),
                                         .arena = Arena(std::move(memory)),
                                         .host = std::move(host),
                                         .modules = std::move(modules),
                                         .dry = std::move(dry)});
  return std::unique_ptr<Pipeline>(new Pipeline(std::move(parts)));
}

absl::StatusOr<ModelDescription> Pipeline::DescribeFiles(const PipelineOptions& options) {
  KINORA_ASSIGN_OR_RETURN(OpenedModel model, OpenModel(options));
  return std::move(model.description);
}

absl::StatusOr<GenerationRequest> Pipeline::Resolve(const PipelineOptions& options, const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const OpenedModel model, OpenModel(options));
  Verdict verdict = ValidateRequest(model.description, request);
  if (!verdict.violations.empty()) return absl::InvalidArgumentError(JoinViolations(verdict.violations));
  return std::move(verdict.effective);
}

absl::StatusOr<RunPlan> Pipeline::Plan(const PipelineOptions& options, const Mesh& mesh,
                                       const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {.threads = options.threads}));
  return PlanOn(traits, options, mesh, request);
}

absl::StatusOr<RunPlan> Pipeline::PlanOn(const BackendTraits& traits, const PipelineOptions& options, const Mesh& mesh,
                                         const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const OpenedModel model, OpenModel(options));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(model.description, request));
  KINORA_ASSIGN_OR_RETURN(const DryModel dry, model.Dry(options, mesh, traits));
  std::unique_ptr<const Tokenizer> tokenizer;
  if (model.checkpoint != nullptr && Tokenizer::IsIn(*model.checkpoint)) {
    KINORA_ASSIGN_OR_RETURN(tokenizer, Tokenizer::LoadFrom(*model.checkpoint));
  }
  return dry.Plan(resolved, tokenizer.get());
}

absl::StatusOr<RunPlan> Pipeline::PlanWithin(const MemoryLimit& memory, const Mesh& mesh,
                                             const GenerationRequest& request, PipelineOptions& options) {
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {.threads = options.threads}));
  options.text_encoder = Residence::kResident;
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, PlanOn(traits, options, mesh, request));
  if (!plan.FitsDevice(memory.bytes) && traits.evicts_weights) {
    options.text_encoder = Residence::kEvicted;
    KINORA_ASSIGN_OR_RETURN(plan, PlanOn(traits, options, mesh, request));
  }
  options.arena_bytes = plan.arena_bytes;
  options.host_arena_bytes = plan.host_arena_bytes;
  return plan;
}

absl::StatusOr<RunPlan> Pipeline::PlanMemory(const MemoryLimit& memory, const Mesh& mesh, PipelineOptions& options) {
  GenerationRequest usual;
  usual.prompt = "probe";
  usual.recipe = Recipe::kOneStage;  // every kind of model has it, and no recipe of one stage needs more memory
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, PlanWithin(memory, mesh, usual, options));
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {.threads = options.threads}));
  KINORA_ASSIGN_OR_RETURN(const OpenedModel model, OpenModel(options));
  KINORA_ASSIGN_OR_RETURN(const DryModel dry, model.Dry(options, mesh, traits));
  KINORA_ASSIGN_OR_RETURN(const ReservedMemory reserved, kinora::PlanMemory(dry, memory));
  options.arena_bytes = reserved.arena_bytes;
  options.host_arena_bytes = reserved.host_arena_bytes;
  options.clean_weights.device_bytes = reserved.left_bytes;
  return plan;
}

absl::StatusOr<RunPlan> Pipeline::Prepare(const GenerationRequest& request) const {
  const Parts& p = *parts_;
  const std::shared_ptr<const LoraList::Known> known = p.loras.Get();
  KINORA_RETURN_IF_ERROR(CheckDigests(known->loras, request));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(known->model, request));
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, p.dry.Plan(resolved, &p.modules.text->tokenizer()));
  OpenFor(known->loras, plan);
  return plan;
}

void Pipeline::DoAhead(const RunPlan& plan) {
  auto* const ahead = dynamic_cast<WorksAhead*>(parts_->backend.get());
  if (ahead == nullptr || plan.one_time_work == nullptr) return;
  const TraceSpan span("plan", "do_ahead");
  ahead->DoAhead(*plan.one_time_work);
}

absl::StatusOr<int32_t> Pipeline::ChooseFrames(const RunPlan& plan, RunObserver* observer) {
  Parts& p = *parts_;
  KINORA_CHECK(plan.open_length.has_value());
  Exec exec = p.MakeExec();
  KINORA_RETURN_IF_ERROR(AgreeAmongAll(exec, p.CheckFits(plan)));
  p.ropes.MakeRoom(p.arena, plan.arena_bytes);
  if (p.mesh.world().rank() != 0) observer = nullptr;
  Generation generation(p.config, p.modules, p.graphs, p.ropes, plan, nullptr, observer);
  return generation.ChooseFrames(exec, [&](const StagePlan& stage, int64_t step, const StepLatents* latents) {
    return Tell(observer, stage, step, latents);
  });
}

absl::Status Pipeline::Generate(const RunPlan& plan, ClipSink* sink, RunObserver* observer, const ResumePoint* from) {
  Parts& p = *parts_;
  KINORA_CHECK(!plan.open_length.has_value()) << "the model has chosen no length";
  KINORA_CHECK((sink != nullptr) == (p.mesh.world().rank() == 0)) << "rank " << p.mesh.world().rank();
  Exec exec = p.MakeExec();
  p.arena.ResetPeak();
  KINORA_RETURN_IF_ERROR(
      AgreeAmongAll(exec, p.CheckFits(plan)));  // plans may differ between ranks: rank 0 decodes and needs more memory
  p.ropes.MakeRoom(p.arena, plan.arena_bytes);
  DoAhead(plan);
  const bool leads = sink != nullptr;
  Generation generation(p.config, p.modules, p.graphs, p.ropes, plan, sink, leads ? observer : nullptr,
                        leads ? from : nullptr);
  absl::Status status = generation.Run(exec, [&](const StagePlan& stage, int64_t step, const StepLatents* latents) {
    return Tell(observer, stage, step, latents);
  });
  p.last_run = generation.uses();
  if (!status.ok()) p.ropes.Clear();  // the work that fills new tables may have failed
  return status;
}

absl::StatusOr<LatentToRgb> Pipeline::FitLatentToRgb(absl::FunctionRef<absl::Status()> on_draw) {
  Parts& p = *parts_;
  if (p.modules.video == nullptr) return absl::FailedPreconditionError("nothing of the picture is loaded");
  const FrameDecoder& decoder = *p.modules.video;
  const int64_t bytes = FitArenaBytes(p.options.precision.activations, decoder);
  std::optional<Arena> own;
  if (p.arena.capacity() < bytes) {
    KINORA_ASSIGN_OR_RETURN(Buffer memory, p.backend->Allocate(bytes, "a fit of previews"));
    own.emplace(std::move(memory));
  }
  Arena& arena = own ? *own : p.arena;
  const auto alone = Mesh::Single();
  Exec exec{
      .backend = *p.backend, .arena = arena, .host = arena, .mesh = *alone, .dtype = p.options.precision.activations};
  return kinora::FitLatentToRgb(exec, decoder, on_draw);
}

absl::Status Pipeline::Agree(const absl::Status& status) {
  Exec exec = parts_->MakeExec();
  return AgreeAmongAll(exec, status);
}

absl::Status Pipeline::ShareFromRankZero(const absl::Status& status, absl::Span<int64_t> numbers) {
  Exec exec = parts_->MakeExec();
  return kinora::ShareFromRankZero(exec, status, numbers);
}

absl::Status Pipeline::GatherTrace() {
  Exec exec = parts_->MakeExec();
  return kinora::GatherTrace(exec);
}

}  // namespace kinora
