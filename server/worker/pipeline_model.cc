#include "server/worker/pipeline_model.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/processes/process_mesh.h"
#include "engine/request/request_rules.h"
#include "engine/weights/lora.h"
#include "server/common/build_version.h"
#include "server/common/human_text.h"
#include "server/common/input_refs.h"
#include "server/common/model_conversion.h"
#include "server/common/request_conversion.h"
#include "server/decode/input_reader.h"
#include "server/worker/model_digests.h"

namespace kinora {
namespace {

class NoSink : public ClipSink {  // of the warm-up
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

// A clip of so many latent cells each way. The smallest that passes through every kernel has two of each.
GenerationRequest WarmUpRequest(const ModelDescription& model, int32_t cells, int32_t latent_frames) {
  GenerationRequest request;
  request.prompt = absl::StrCat("warm-up of ", cells, " cells, ", latent_frames);  // each its own, or it is not encoded
  request.width = request.height = cells * model.pixels_per_token;
  request.num_frames = (latent_frames - 1) * model.frames_per_token + 1;
  request.recipe = Recipe::kOneStage;  // of every kind of model; its guidance passes through the most
  request.num_inference_steps = 2;
  return request;
}

constexpr absl::Duration kJoinPatience = absl::Minutes(5), kWarmUpPatience = absl::Minutes(10);

// What the configuration says without a file being read.
struct AskedModel {
  PipelineOptions options;
  MeshShape shape;
};

absl::StatusOr<AskedModel> ReadConfig(const v1::WorkerConfig& config) {
  AskedModel asked;
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(config.device(), {}));
  asked.options.device = traits.device;
  const std::vector<std::string> files(config.model().begin(), config.model().end());
  KINORA_ASSIGN_OR_RETURN(asked.options.files, ModelFiles::Parse(files));
  KINORA_ASSIGN_OR_RETURN(asked.options.precision, Precision::Parse(config.precision()));
  const absl::StatusOr<MeshShape> shape = MeshShape::Parse(config.ranks());
  if (!shape.ok()) return absl::InvalidArgumentError(absl::StrCat("ranks: ", std::string(shape.status().message())));
  asked.shape = *shape;
  const int threads = config.threads() > 0 ? config.threads() : static_cast<int>(std::thread::hardware_concurrency());
  asked.options.lora_cache = std::make_shared<FactorCache>(config.lora_cache_bytes());
  asked.options.threads = std::max(1, threads / shape->ranks());
  return asked;
}

// Whether ranks of this shape are what the group's processes can be.
absl::Status CheckShape(const v1::WorkerConfig& config, const MeshShape& shape, const std::string& device,
                        int world_size) {
  if (shape.ranks() > 1 && world_size == 1 && device != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: ", shape.ToString(), " on ", device,
                     ": a process has one device: give the group `processes: ", shape.ranks(), "`"));
  }
  if (world_size == 1 || shape.ranks() == world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks: \"", config.ranks(), "\" are ", shape.ranks(),
                                                 ", and the group has ", world_size,
                                                 " processes: ", absl::StrJoin(MeshShape::Of(world_size), " or ")));
}

// The ranks of the group that live in this process: all of them, or the one that it is.
absl::StatusOr<std::vector<std::unique_ptr<Mesh>>> MakeMeshes(const v1::WorkerConfig& config, const MeshShape& shape,
                                                              const std::string& device, const RankContext& group) {
  KINORA_RETURN_IF_ERROR(CheckShape(config, shape, device, group.world_size));
  if (group.world_size == 1) return MakeThreadMeshes(shape);
  const PeerOptions peer{.key = group.group_key, .interface = config.data_interface(), .patience = kJoinPatience};
  const ProcessRank process{.rank = group.rank, .rendezvous = group.rendezvous, .lost = group.lost, .peer = peer};
  std::vector<std::unique_ptr<Mesh>> meshes;
  KINORA_ASSIGN_OR_RETURN(meshes.emplace_back(), MakeProcessMesh(device, shape, process));
  return meshes;
}

std::string ModelId(const v1::WorkerConfig& config) {
  if (!config.model_id().empty()) return config.model_id();
  for (const std::string& argument : config.model()) {
    if (argument.find('=') != std::string::npos) continue;
    std::filesystem::path path(argument);
    if (path.filename().empty()) path = path.parent_path();
    return path.extension() == ".safetensors" ? path.stem() : path.filename();
  }
  return "model";
}

}  // namespace

PipelineModel::PipelineModel(std::vector<std::unique_ptr<Mesh>> meshes, const RankContext& group)
    : ranks_(ToRanks(std::move(meshes))), rendezvous_(group.rendezvous), lost_(group.lost, [this] {
        for (const Rank& rank : ranks_) rank.mesh->Abort();
      }) {}

std::vector<PipelineModel::Rank> PipelineModel::ToRanks(std::vector<std::unique_ptr<Mesh>> meshes) {
  std::vector<Rank> ranks;
  ranks.reserve(meshes.size());
  for (auto& mesh : meshes) ranks.push_back({.mesh = std::move(mesh), .pipeline = nullptr});
  return ranks;
}

absl::Status PipelineModel::Check(const v1::WorkerConfig& config) {
  KINORA_ASSIGN_OR_RETURN(AskedModel asked, ReadConfig(config));
  KINORA_RETURN_IF_ERROR(DeviceName(config.device(), {}).status());
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(config.device(), {}));
  KINORA_RETURN_IF_ERROR(asked.options.precision.CheckOn(traits));
  KINORA_RETURN_IF_ERROR(CheckShape(config, asked.shape, traits.device, config.world_size()));
  if (!config.lora_folder().empty()) KINORA_RETURN_IF_ERROR(LoraFolder::Check(config.lora_folder()));
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(asked.options.files));
  if (checkpoint->tokenizer_model().empty()) {
    return absl::InvalidArgumentError(
        "model: no text encoder with a tokenizer.model; give its folder as text_encoder=DIR");
  }
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(asked.shape));
  GenerationRequest usual;
  usual.prompt = "a";
  usual.recipe = Recipe::kOneStage;  // of every kind of model
  const MemoryLimit any{.bytes = std::numeric_limits<int64_t>::max(), .by = "nothing"};
  return Pipeline::PlanWithin(any, *mesh, usual, asked.options).status();
}

absl::StatusOr<v1::ModelInfo> PipelineModel::DescribeFiles(const v1::WorkerConfig& config) {
  if (config.model().empty()) return absl::InvalidArgumentError("model: at least one path is needed");
  const std::vector<std::string> files(config.model().begin(), config.model().end());
  PipelineOptions options;
  KINORA_ASSIGN_OR_RETURN(options.files, ModelFiles::Parse(files));
  KINORA_ASSIGN_OR_RETURN(const ModelDescription description, Pipeline::DescribeFiles(options));
  return ToModelInfo(description, ModelId(config));
}

absl::StatusOr<std::unique_ptr<Model>> PipelineModel::Load(const v1::WorkerConfig& config, const RankContext& rank,
                                                           WorkerMetrics& metrics,
                                                           const std::function<void()>& on_progress) {
  KINORA_ASSIGN_OR_RETURN(const AskedModel asked, ReadConfig(config));
  const PipelineOptions& options = asked.options;
  if (!config.lora_folder().empty()) KINORA_RETURN_IF_ERROR(LoraFolder::Check(config.lora_folder()));
  KINORA_ASSIGN_OR_RETURN(auto meshes, MakeMeshes(config, asked.shape, options.device, rank));
  auto collectives = std::make_unique<CollectiveMetrics>(*meshes[0], metrics);
  for (const auto& mesh : meshes) mesh->Observe(*collectives, Clock::Steady());
  auto model = std::unique_ptr<PipelineModel>(new PipelineModel(std::move(meshes), rank));
  model->collectives_ = std::move(collectives);
  model->device_ = options.device;
  model->full_distilled_strength_ = options.files.distilled_lora_strength.value_or(1);
  const absl::Time begin = absl::Now();
  std::optional<ModelDigests> digests;
  if (model->leads()) digests.emplace(options.files);
  KINORA_RETURN_IF_ERROR(model->LoadRanks(options, config.memory_share(), metrics));
  const absl::Time loaded = absl::Now();
  KINORA_RETURN_IF_ERROR(model->Warm(on_progress));
  const absl::Time warm = absl::Now();
  metrics.model_load_seconds.Add({{"phase", "warm"}}).Set(absl::ToDoubleSeconds(warm - loaded));
  model->loras_ =
      std::make_unique<LoraWatch>(*model->ranks_[0].pipeline, options.lora_cache, config.lora_folder(), metrics);
  KINORA_ASSIGN_OR_RETURN(const ModelDigests::Map known_loras, model->FillReady(config, options));
  model->loras_->SetDigests(known_loras);
  if (digests) {
    KINORA_ASSIGN_OR_RETURN(const ModelDigests::Map known, digests->Wait());
    metrics.model_load_seconds.Add({{"phase", "digests"}}).Set(absl::ToDoubleSeconds(absl::Now() - warm));
    for (const auto& [name, digest] : known) (*model->ready_.mutable_model()->mutable_digests())[name] = digest;
  }
  model->ready_.set_load_seconds(absl::ToDoubleSeconds(absl::Now() - begin));
  return model;
}

// For a rank's share of the memory that this group may have, the same on every rank: what fits one fits all.
absl::Status PipelineModel::PlanArenas(double memory_share, PipelineOptions& options) {
  const Mesh& mesh = *ranks_[0].mesh;
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend(options.device, {.threads = 1}));
  MemoryLimit memory = backend->usable_memory();
  KINORA_ASSIGN_OR_RETURN(memory.bytes, LeastOfRanks("memory", memory.bytes));
  memory.bytes =
      static_cast<int64_t>(memory_share * static_cast<double>(memory.bytes)) / RanksPerMemory(backend->traits(), mesh);
  backend.reset();
  KINORA_ASSIGN_OR_RETURN(const RunPlan usual, Pipeline::PlanMemory(memory, mesh, options));
  Log(Severity::kInfo, "memory_planned",
      {{"arena_bytes", options.arena_bytes},
       {"host_arena_bytes", options.host_arena_bytes},
       {"text_encoder", usual.TextEncoderResidence()}});
  return absl::OkStatus();
}

absl::Status PipelineModel::LoadRanks(const PipelineOptions& options, double memory_share, WorkerMetrics& metrics) {
  std::string phase;
  absl::Time phase_begin;
  const auto end_phase = [&] {
    const double seconds = absl::ToDoubleSeconds(absl::Now() - phase_begin);
    if (phase.empty()) return;
    metrics.model_load_seconds.Add({{"phase", phase}}).Set(seconds);
    (*ready_.mutable_load_phase_seconds())[phase] = seconds;
  };
  PipelineOptions own = options;
  KINORA_RETURN_IF_ERROR(PlanArenas(memory_share, own));
  arena_bytes_ = own.arena_bytes;
  host_arena_bytes_ = own.host_arena_bytes;
  KINORA_RETURN_IF_ERROR(OnEveryRank([&](Rank& rank) -> absl::Status {
    const bool first = &rank == ranks_.data();
    KINORA_ASSIGN_OR_RETURN(rank.pipeline, Pipeline::Load(own, *rank.mesh, [&](std::string_view next) {
                              if (!first) return;
                              end_phase();
                              phase = std::string(next);
                              phase_begin = absl::Now();
                            }));
    return absl::OkStatus();
  }));
  end_phase();
  description_ = ranks_[0].pipeline->description();
  KINORA_ASSIGN_OR_RETURN(const int64_t max_tokens, ranks_[0].pipeline->MaxTokens());
  for (RecipeDescription& recipe : description_.recipes) recipe.max_tokens = max_tokens;
  return absl::OkStatus();
}

absl::Status PipelineModel::OnEveryRank(absl::FunctionRef<absl::Status(Rank&)> body) {
  std::vector<const Mesh*> meshes;
  for (const Rank& rank : ranks_) meshes.push_back(rank.mesh.get());
  const int first = meshes[0]->world().rank();
  return kinora::OnEveryRank(meshes, [&](const Mesh& mesh) { return body(ranks_[mesh.world().rank() - first]); });
}

absl::Status PipelineModel::RunOnRanks(const RunPlan& plan, ClipSink* sink, RunObserver* observer) {
  return OnEveryRank([&](Rank& rank) {
    const bool leads = rank.mesh->world().rank() == 0;
    return rank.pipeline->Generate(plan, leads ? sink : nullptr, leads ? observer : nullptr);
  });
}

absl::StatusOr<v1::RunSpeed> PipelineModel::WarmOnce(const RunPlan& plan, StageKind last,
                                                     const std::function<void()>& on_progress) {
  NoSink sink;
  std::map<std::string, double> stage_seconds;
  std::string stage;
  absl::Time begin;
  const auto enter = [&](const std::string& next) {
    const absl::Time now = absl::Now();
    if (!stage.empty()) stage_seconds[stage] += absl::ToDoubleSeconds(now - begin);
    stage = next;
    begin = now;
  };
  ProgressObserver observer([&](const Progress& progress) {
    if (progress.stage != stage) enter(progress.stage);
    on_progress();
    const StagePlan* const planned = plan.Find(stage);  // null: LoRAs are put on or taken off
    return planned != nullptr && planned->kind > last ? absl::CancelledError("warm enough") : absl::OkStatus();
  });
  const absl::Status status = RunOnRanks(plan, &sink, &observer);
  if (!absl::IsCancelled(status)) KINORA_RETURN_IF_ERROR(status);
  if (status.ok()) enter("");  // else it has entered what is not timed
  return ToRunSpeed(plan, stage_seconds);
}

// The first pass pays for cold pages, the next is the first word on speed. Then denoising alone at larger sizes, where
// attention has another share and products another rate, as long as all of that should take no longer than the small
// one's and kMore: a time grows by no more than its FLOPs. Decoding is the slower to do and the easier to foresee.
absl::Status PipelineModel::Warm(const std::function<void()>& on_progress) {
  constexpr double kMore = 0.2;  // seconds
  const Pipeline& pipeline = *ranks_[0].pipeline;
  KINORA_ASSIGN_OR_RETURN(const RunPlan small, pipeline.Prepare(WarmUpRequest(description_, 2, 2)));
  KINORA_RETURN_IF_ERROR(WarmOnce(small, StageKind::kDecodeAudio, on_progress).status());
  KINORA_ASSIGN_OR_RETURN(const v1::RunSpeed run, WarmOnce(small, StageKind::kDecodeAudio, on_progress));
  speed_.ObserveWarmUp(run);
  v1::StageSpeed last = run.stages(static_cast<int>(small.audio_stage));
  double left = last.seconds() + kMore;
  for (const auto& [cells, latent_frames] : {std::pair{2, 3}, {4, 4}, {8, 8}, {12, 12}, {16, 16}}) {
    const GenerationRequest request = WarmUpRequest(description_, cells, latent_frames);
    if (!ResolveRequest(description_, request).ok()) break;  // larger than the model takes
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
    const double longest = last.seconds() * plan.stages[plan.audio_stage].cost.flops / last.flops();
    KINORA_ASSIGN_OR_RETURN(const bool more, AgreeOnMore(cells, longest <= left && plan.arena_bytes <= arena_bytes_));
    if (!more) break;
    KINORA_ASSIGN_OR_RETURN(const v1::RunSpeed larger, WarmOnce(plan, StageKind::kDenoise, on_progress));
    speed_.ObserveWarmUp(larger);
    last = larger.stages(static_cast<int>(plan.audio_stage));
    left -= last.seconds();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PipelineModel::AgreeOnMore(int round, bool more) {
  if (std::ssize(ranks_) == ranks_[0].mesh->world().size()) return more;
  const std::string key = absl::StrCat("warm-up/", round);
  if (leads()) {
    rendezvous_.Publish(key, more ? "more" : "");
    return more;
  }
  KINORA_ASSIGN_OR_RETURN(const std::string said, rendezvous_.Await(0, key, kWarmUpPatience));
  return !said.empty();
}

absl::StatusOr<int64_t> PipelineModel::LeastOfRanks(const std::string& key, int64_t own) {
  const Communicator& world = ranks_[0].mesh->world();
  if (std::ssize(ranks_) == world.size()) return own;
  rendezvous_.Publish(key, absl::StrCat(own));
  int64_t least = own;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) continue;
    KINORA_ASSIGN_OR_RETURN(const std::string said, rendezvous_.Await(rank, key, kJoinPatience));
    int64_t others = 0;
    if (!absl::SimpleAtoi(said, &others)) {
      return absl::InternalError(absl::StrCat("rank ", rank, ": ", key, ": \"", said, "\""));
    }
    least = std::min(least, others);
  }
  return least;
}

absl::StatusOr<ModelDigests::Map> PipelineModel::FillReady(const v1::WorkerConfig& config,
                                                           const PipelineOptions& options) {
  *ready_.mutable_model() = ToModelInfo(description_, ModelId(config));
  const MeshShape& shape = ranks_[0].mesh->shape();
  if (shape.ranks() > 1) ready_.set_mesh(shape.ToString());
  ready_.set_precision(options.precision.ToString());
  ready_.set_device(device_);
  ModelDigests::Map loras;
  KINORA_ASSIGN_OR_RETURN(*ready_.mutable_checkpoint(), DigestOfHeaders(options.files, &loras));
  return loras;
}

v1::Ready PipelineModel::Describe() const {
  v1::Ready ready = ready_;
  loras_->Describe(*ready.mutable_model());
  return ready;
}

void PipelineModel::SetListener(std::function<void(const v1::ModelInfo&)> changed) {
  if (!leads() || changed == nullptr) return loras_->SetListener(nullptr);
  loras_->SetListener([this, changed = std::move(changed)] { changed(Describe().model()); });
}

absl::StatusOr<PreparedRun> PipelineModel::Prepare(const v1::Generation& generation) const {
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ToGenerationRequest(generation));
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, ranks_[0].pipeline->Prepare(request));
  return PreparedRun{.generation = generation, .plan = std::move(plan)};
}

absl::StatusOr<PreparedRun> PipelineModel::PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                                      const GoOn& go_on) {
  KINORA_ASSIGN_OR_RETURN(GenerationRequest request, ToGenerationRequest(generation));
  if (NamesInputs(request)) {
    KINORA_RETURN_IF_ERROR(ShareInputs(leads() ? read(request) : absl::OkStatus(), request));
  }
  const absl::Status sought = loras_->Seek(generation, go_on);
  absl::StatusOr<RunPlan> plan = !sought.ok() ? sought : ranks_[0].pipeline->Prepare(request);
  if (!request.loras.empty()) KINORA_RETURN_IF_ERROR(AgreeOn(plan.status()));  // each looks for the files itself
  // Rank 0 alone looks at what was read, and may refuse it.
  if (NamesInputs(request)) KINORA_RETURN_IF_ERROR(ShareInputs(plan.status(), request));
  KINORA_RETURN_IF_ERROR(plan.status());
  return PreparedRun{.generation = generation, .plan = *std::move(plan)};
}

// Rank 0 has read them, or has not: `status`.
absl::Status PipelineModel::ShareInputs(absl::Status status, GenerationRequest& request) {
  if (std::ssize(ranks_) == ranks_[0].mesh->world().size()) return status;
  std::vector<int64_t> measures = MeasuresOf(request);
  const absl::Status shared =
      OnEveryRank([&](Rank& rank) { return rank.pipeline->ShareFromRankZero(status, absl::MakeSpan(measures)); });
  if (!IsAgreed(shared)) return absl::AbortedError(absl::StrCat("a rank failed: ", shared.ToString()));
  if (shared.ok() && !leads()) SetMeasures(measures, request);
  return WithoutMark(shared);
}

absl::Status PipelineModel::AgreeOn(const absl::Status& status) {
  if (std::ssize(ranks_) == ranks_[0].mesh->world().size()) return status;
  const absl::Status agreed = OnEveryRank([&](Rank& rank) { return rank.pipeline->Agree(status); });
  if (!IsAgreed(agreed)) return absl::AbortedError(absl::StrCat("a rank failed: ", agreed.ToString()));
  return WithoutMark(agreed);
}

v1::Estimate PipelineModel::Estimate(const PreparedRun& run) const {
  const RunPlan& plan = run.plan;
  v1::Estimate estimate;
  *estimate.mutable_effective() = run.generation;
  estimate.set_seconds(speed_.Seconds(ToRunSpeed(plan, {})));
  estimate.set_device_bytes(plan.device_bytes());
  estimate.set_flops(plan.flops());
  const auto check = [&](int64_t needed, int64_t reserved, const char* what) {
    if (needed <= reserved) return;
    estimate.add_problems(absl::StrCat("it needs ", HumanBytes(needed), " for ", what, ", ",
                                       HumanBytesLike(reserved, needed), " are reserved"));
  };
  check(plan.arena_bytes, arena_bytes_, "activations");
  check(plan.host_arena_bytes, host_arena_bytes_, "the host's side of copies");
  estimate.set_fits(estimate.problems().empty());
  if (estimate.fits()) return estimate;
  const auto nearest = ranks_[0].pipeline->NearestThatFits(plan.request);
  if (nearest.ok() && *nearest) {
    estimate.mutable_nearest()->set_width((*nearest)->width);
    estimate.mutable_nearest()->set_height((*nearest)->height);
    estimate.mutable_nearest()->set_num_frames((*nearest)->num_frames);
  }
  return estimate;
}

double PipelineModel::ExpectedSeconds(const PreparedRun& run, const std::string& stage) const {
  constexpr double kGenerous = 2;
  const v1::RunSpeed plan = ToRunSpeed(run.plan, {});
  for (size_t i = 0; i < run.plan.stages.size(); ++i) {
    if (run.plan.stages[i].label == stage) return kGenerous * speed_.Seconds(plan.stages(static_cast<int>(i)));
  }
  return stage == "finalize" ? kGenerous * speed_.Seconds(*plan.stages().rbegin()) : 0;
}

v1::Resolved PipelineModel::Resolve(const PreparedRun& run) const {
  v1::Resolved resolved;
  resolved.set_precision(ready_.precision());
  resolved.set_mesh(ready_.mesh());
  resolved.set_build(kBuildVersion);
  resolved.set_device(device_);
  *resolved.mutable_digests() = ready_.model().digests();
  for (const InputRef& ref : InputRefsOf(run.generation)) {
    (*resolved.mutable_digests())[absl::StrCat("input/", ref.id)] = absl::StrCat("sha256:", ref.id);
  }
  for (const v1::LoraRef& lora : run.generation.loras()) {
    if (!lora.digest().empty()) (*resolved.mutable_digests())[absl::StrCat("lora/", lora.id())] = lora.digest();
  }
  for (const v1::Condition& condition : run.generation.conditions()) resolved.add_condition_crf(condition.crf());
  resolved.set_tile_plan(run.plan.tiles.ToString());
  if (std::string warning = UntrainedShapeWarning(description_, run.plan.request); !warning.empty()) {
    resolved.add_warnings(std::move(warning));
  }
  for (const StagePlan& planned : run.plan.stages) {
    if (planned.kind != StageKind::kDenoise) continue;
    v1::Resolved::Stage& stage = *resolved.add_stages();
    stage.set_width(static_cast<int32_t>(planned.grid.out_width()));
    stage.set_height(static_cast<int32_t>(planned.grid.out_height()));
    stage.set_num_frames(static_cast<int32_t>(planned.grid.out_frames()));
    for (const float sigma : planned.sigmas) stage.add_sigmas(sigma);
    stage.set_undistilled(planned.undistilled);
    for (const AppliedLora& applied : planned.loras) {
      v1::LoraRef& lora = *stage.add_loras();
      lora.set_id(applied.id);
      lora.set_strength(applied.strength * (applied.id == kDistilledLora ? full_distilled_strength_ : 1));
    }
  }
  return resolved;
}

absl::Status PipelineModel::Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) {
  const absl::Time begin = absl::Now();
  absl::Status status = RunOnRanks(run.plan, sink, observer);
  // The ranks' collectives are dead after one of them failed alone, and stay so.
  if (!IsAgreed(status)) return absl::AbortedError(absl::StrCat("a rank failed: ", status.ToString()));
  usage.set_device_seconds(absl::ToDoubleSeconds(absl::Now() - begin));
  loras_->CountSwaps(ranks_[0].pipeline->last_run());
  const RunPlan& plan = run.plan;
  usage.set_planned_device_bytes(plan.device_bytes());
  usage.set_peak_device_bytes(plan.device_bytes() - plan.arena_bytes + ranks_[0].pipeline->peak_arena_bytes());
  if (status.ok()) {
    for (const Rank& rank : ranks_) collectives_->OnRun(rank.mesh->world().rank(), rank.pipeline->last_run());
  }
  return WithoutMark(std::move(status));
}

absl::StatusOr<std::string> PipelineModel::EndTrace() {
  if (std::ssize(ranks_) < ranks_[0].mesh->world().size()) {
    const absl::Status gathered = OnEveryRank([](Rank& rank) { return rank.pipeline->GatherTrace(); });
    if (!gathered.ok()) return absl::AbortedError(absl::StrCat("the trace: ", gathered.ToString()));
  }
  return leads() ? StopTrace() : "";
}

}  // namespace kinora
