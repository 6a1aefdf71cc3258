#include "server/worker/pipeline_model.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/model/decoder_border.h"
#include "engine/parallel/agree.h"
#include "engine/request/defaults.h"
#include "server/decode/input_reader.h"
#include "server/request/model_conversion.h"
#include "server/request/request_conversion.h"
#include "server/worker/model_options.h"
#include "server/worker/run_fingerprint.h"
#include "server/worker/run_reports.h"
#include "server/worker/warm_up.h"

namespace kinora {

PipelineModel::PipelineModel(std::unique_ptr<CollectiveMetrics> collectives, std::vector<std::unique_ptr<Mesh>> meshes,
                             const RankContext& group)
    : collectives_(std::move(collectives)), ranks_(std::move(meshes), group) {}

absl::StatusOr<std::unique_ptr<Model>> PipelineModel::Load(const v1::WorkerConfig& config, const RankContext& rank,
                                                           WorkerMetrics& metrics,
                                                           const std::function<void()>& on_progress) {
  KINORA_ASSIGN_OR_RETURN(const ModelOptions read, ReadModelOptions(config));
  const PipelineOptions& options = read.pipeline;
  if (!config.lora_folder().empty()) KINORA_RETURN_IF_ERROR(LoraFolder::Check(config.lora_folder()));
  KINORA_RETURN_IF_ERROR(CheckRanks(config, read.shape, options.device, rank.world_size));
  KINORA_ASSIGN_OR_RETURN(auto meshes, MakeMeshes(read.shape, options.device, config.data_interface(), rank));
  auto collectives = std::make_unique<CollectiveMetrics>(*meshes[0], metrics);
  for (const auto& mesh : meshes) mesh->Observe(*collectives, Clock::Steady());
  auto model = std::unique_ptr<PipelineModel>(new PipelineModel(std::move(collectives), std::move(meshes), rank));
  model->full_distilled_strength_ = options.files.distilled_lora_strength.value_or(1);
  const absl::Time begin = Clock::Steady().Now();
  std::optional<ModelDigests> digests;
  if (model->ranks_.leads()) digests.emplace(options.files);
  KINORA_RETURN_IF_ERROR(model->LoadRanks(options, config.memory_share(), metrics));
  const absl::Time loaded = Clock::Steady().Now();
  KINORA_RETURN_IF_ERROR(
      WarmUp(model->ranks_,
             {.model = model->description_, .arena_bytes = model->memory_.arena_bytes, .on_progress = on_progress},
             model->speed_));
  const absl::Time warm = Clock::Steady().Now();
  metrics.model_load_seconds.Add({{"phase", "warm"}}).Set(absl::ToDoubleSeconds(warm - loaded));
  model->loras_ =
      std::make_unique<LoraWatch>(model->ranks_.pipeline(), options.lora_cache, config.lora_folder(), metrics);
  KINORA_ASSIGN_OR_RETURN(const ModelDigests::Map known_loras, model->FillReady(config, options));
  model->loras_->SetDigests(known_loras);
  if (digests) {
    KINORA_ASSIGN_OR_RETURN(const ModelDigests::Map known, digests->Wait());
    metrics.model_load_seconds.Add({{"phase", "digests"}}).Set(absl::ToDoubleSeconds(Clock::Steady().Now() - warm));
    for (const auto& [name, digest] : known) (*model->ready_.mutable_model()->mutable_digests())[name] = digest;
  }
  model->ready_.set_load_seconds(absl::ToDoubleSeconds(Clock::Steady().Now() - begin));
  return model;
}

absl::Status PipelineModel::LoadRanks(const PipelineOptions& options, double memory_share, WorkerMetrics& metrics) {
  std::string phase;
  absl::Time phase_begin;
  const auto end_phase = [&] {
    const double seconds = absl::ToDoubleSeconds(Clock::Steady().Now() - phase_begin);
    if (phase.empty()) return;
    metrics.model_load_seconds.Add({{"phase", phase}}).Set(seconds);
    (*ready_.mutable_load_phase_seconds())[phase] = seconds;
  };
  PipelineOptions own = options;
  KINORA_ASSIGN_OR_RETURN(memory_, PlanWorkerMemory(ranks_, memory_share, own));
  KINORA_RETURN_IF_ERROR(ranks_.Load(own, [&](std::string_view next) {
    end_phase();
    phase = std::string(next);
    phase_begin = Clock::Steady().Now();
  }));
  end_phase();
  description_ = ranks_.pipeline().description();
  KINORA_ASSIGN_OR_RETURN(const int64_t max_tokens, ranks_.pipeline().MaxTokens());
  for (RecipeDescription& recipe : description_.recipes) recipe.max_tokens = max_tokens;
  return ranks_.leads() ? LoraWatch::CheckGiven(ranks_.pipeline().loras()) : absl::OkStatus();
}

absl::StatusOr<ModelDigests::Map> PipelineModel::FillReady(const v1::WorkerConfig& config,
                                                           const PipelineOptions& options) {
  *ready_.mutable_model() = ToModelInfo(description_, ModelId(config));
  const MeshShape& shape = ranks_.mesh().shape();
  if (shape.ranks() > 1) ready_.set_mesh(shape.ToString());
  ready_.set_precision(options.precision.ToString());
  ready_.set_device(options.device);
  ready_.set_untiled_decode(options.untiled_decode);
  ready_.set_decoder_border(std::string(NameOf(options.decoder_border)));
  KINORA_ASSIGN_OR_RETURN(const std::string machine, MachineOf(options.device, options.cuda));
  KINORA_ASSIGN_OR_RETURN(const std::vector<std::string> machines, ranks_.FromEveryRank("machine", machine));
  machine_ = JoinMachines(machines);
  ModelDigests::Map loras;
  KINORA_ASSIGN_OR_RETURN(*ready_.mutable_checkpoint(), DigestOfHeaders(options.files, &loras));
  return loras;
}

v1::Ready PipelineModel::Describe() const {
  v1::Ready ready = ready_;
  loras_->Describe(*ready.mutable_model());
  return ready;
}

void PipelineModel::SetListener(const std::function<void(const v1::ModelInfo&)>& changed) {
  if (!ranks_.leads() || changed == nullptr) return loras_->SetListener(nullptr);
  loras_->SetListener([this, changed] { changed(Describe().model()); });
}

absl::StatusOr<PreparedRun> PipelineModel::Prepare(const v1::Generation& generation) const {
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ToGenerationRequest(generation));
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, ranks_.pipeline().Prepare(request));
  return PreparedRun{.generation = generation, .plan = std::move(plan)};
}

absl::StatusOr<PreparedRun> PipelineModel::PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                                      RunObserver& observer) {
  KINORA_ASSIGN_OR_RETURN(GenerationRequest request, ToGenerationRequest(generation));
  if (NamesInputs(request)) {
    KINORA_RETURN_IF_ERROR(
        ranks_.ShareInputs(ranks_.leads() ? read(LimitsOf(request), request) : absl::OkStatus(), request));
  }
  const absl::Status sought = loras_->Seek(generation, [&observer] { return observer.OnWork(); });
  absl::StatusOr<RunPlan> plan = !sought.ok() ? sought : ranks_.pipeline().Prepare(request);
  if (!request.loras.empty()) KINORA_RETURN_IF_ERROR(ranks_.Agree(plan.status()));  // each rank seeks its own files
  // Only rank 0 inspects the inputs, so it alone may reject them.
  if (NamesInputs(request)) KINORA_RETURN_IF_ERROR(ranks_.ShareInputs(plan.status(), request));
  if (plan.ok() && plan->open_length.has_value()) {
    KINORA_ASSIGN_OR_RETURN(const int32_t frames, ranks_.ChooseFrames(*plan, &observer));
    plan = ranks_.pipeline().Prepare(WithFrames(std::move(request), frames));
    KINORA_RETURN_IF_ERROR(ranks_.Agree(plan.status()));
  }
  KINORA_RETURN_IF_ERROR(plan.status());
  return PreparedRun{.generation = generation, .plan = *std::move(plan)};
}

InputLimits PipelineModel::LimitsOf(const GenerationRequest& request) const {
  InputLimits limits{.bytes = memory_.input_bytes};
  if (description_.parts.audio_encoder) limits.channels = ranks_.pipeline().config().audio_encoder.in_channels;
  const RecipeDescription* const recipe = description_.Find(request.recipe, request.upsampler);
  if (recipe != nullptr)
    limits.frames = request.auto_length.has_value() ? AssumedFrames(*recipe, request) : recipe->max_frames;
  return limits;
}

v1::Estimate PipelineModel::Estimate(const PreparedRun& run) const {
  return EstimateRun(run, speed_, memory_, ranks_.pipeline());
}

v1::Resolved PipelineModel::Resolve(const PreparedRun& run) const {
  return ResolveRun(
      run, {.ready = ready_, .description = description_, .full_distilled_strength = full_distilled_strength_});
}

double PipelineModel::ExpectedSeconds(const PreparedRun& run, Stage stage) const {
  return ExpectedStageSeconds(run, stage, speed_);
}

absl::Status PipelineModel::Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) {
  const absl::Time begin = Clock::Steady().Now();
  absl::Status status = ranks_.Generate(run.plan, sink, observer, run.from.get());
  if (!IsAgreed(status)) return FailedAlone(status);
  usage.set_device_seconds(absl::ToDoubleSeconds(Clock::Steady().Now() - begin));
  loras_->CountSwaps(ranks_.pipeline().last_run());
  const RunPlan& plan = run.plan;
  usage.set_planned_device_bytes(plan.device_bytes());
  usage.set_peak_device_bytes(plan.device_bytes() - plan.arena_bytes + ranks_.pipeline().peak_arena_bytes());
  if (status.ok()) {
    for (const ModelRank& rank : ranks_.ranks()) {
      collectives_->OnRun(rank.mesh->world().rank(), rank.pipeline->last_run());
    }
  }
  return WithoutMark(std::move(status));
}

absl::Status PipelineModel::PreparePreviews(const GoOn& go_on) {
  return previews_.Prepare(ranks_.pipeline(), ready_, go_on);
}

absl::StatusOr<PreviewPicture> PipelineModel::Preview(const StepLatents& latents) { return previews_.Make(latents); }

RunFingerprint PipelineModel::Fingerprint(const PreparedRun& run) const {
  return FingerprintOf(run,
                       {.ready = ready_, .full_distilled_strength = full_distilled_strength_, .machine = machine_});
}

std::string PipelineModel::ResumeFileOf(const PreparedRun& run, ResumePoint&& point) const {
  return ToBytes({.point = std::move(point), .fingerprint = Fingerprint(run)});
}

int64_t PipelineModel::MostResumeFileBytes(const PreparedRun& run) const {
  return kinora::MostResumeFileBytes(run.plan);
}

absl::StatusOr<ResumePoint> PipelineModel::ReadResumeFile(const PreparedRun& run, std::string_view file) const {
  KINORA_ASSIGN_OR_RETURN(ResumeFile read, ParseResumeFile(file));
  const std::string changed = WhatChanged(read.fingerprint, Fingerprint(run));
  if (!changed.empty()) return absl::FailedPreconditionError(changed);
  KINORA_RETURN_IF_ERROR(CheckResumePoint(run.plan, read.point));
  return std::move(read.point);
}

absl::StatusOr<std::string> PipelineModel::EndTrace() {
  KINORA_RETURN_IF_ERROR(ranks_.GatherTrace());
  return ranks_.leads() ? StopTrace() : "";
}

}  // namespace kinora
