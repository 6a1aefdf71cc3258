#include "engine/pipeline/dry_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/trace.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/generation.h"
#include "engine/request/defaults.h"

namespace kinora {
namespace {

StageCost Between(const Cost& begin, const Cost& end) {
  return {.flops = end.flops() - begin.flops(),
          .bytes = end.bytes() - begin.bytes(),
          .launches = end.calls() - begin.calls()};
}

// Sets what a dry run of the plan has counted. begin: at the start of each stage, and at the end.
void SetCounted(const std::vector<Cost>& begin, const Generation& generation, RunPlan& plan) {
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    plan.stages[i].cost = Between(begin[i], begin[i + 1]);
    plan.stages[i].carried = generation.carried()[i];
  }
}

PlannedDecoder DecoderOf(const Modules& modules, bool untiled) {
  return {.decoder = modules.video.get(), .untiled = untiled};
}

}  // namespace

absl::StatusOr<DryModel> DryModel::Make(const ModelConfig& config, const ModelDescription& description,
                                        const Mesh& mesh, const Options& options) {
  KINORA_RETURN_IF_ERROR(options.precision.CheckOn(options.traits));
  if (options.text_encoder == Residence::kEvicted && !options.traits.evicts_weights) {
    return absl::UnimplementedError(Cat("device: ", options.traits.device, " keeps the text encoder where it is"));
  }
  DryModel model;
  model.config_ = config;
  model.description_ = description;
  model.options_ = options;
  KINORA_ASSIGN_OR_RETURN(model.mesh_, MakeDryMesh(mesh.shape(), mesh.world().rank()));
  // Ranks may hold different amounts, because each has whole layers of the text encoder.
  for (int rank = 0; rank < mesh.shape().ranks(); ++rank) {
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> its, MakeDryMesh(mesh.shape(), rank));
    DryBackend backend(options.traits);
    const WeightLoader loader = WeightLoader::Dry(*its, backend, options.precision);
    KINORA_ASSIGN_OR_RETURN(Modules modules, Modules::Load(loader, config,
                                                           {.text_encoder = options.text_encoder,
                                                            .modalities = options.modalities,
                                                            .decoder_border = options.decoder_border,
                                                            .rank_zero = rank == 0},
                                                           [](std::string_view) {}));
    model.weight_bytes_ = std::max(model.weight_bytes_, backend.ops().weight_bytes() + loader.tensor_bytes());
    model.evicted_bytes_ = std::max(model.evicted_bytes_, modules.text->evicted_bytes());
    if (rank == mesh.world().rank()) model.modules_ = std::move(modules);
  }
  return model;
}

absl::StatusOr<RunPlan> DryModel::PlanWithoutCosts(const GenerationRequest& asked, const Tokenizer* tokenizer) const {
  GenerationRequest request = asked;
  std::optional<LengthLimits> open_length;
  if (FramesAreUnknown(asked)) {
    const RecipeDescription& recipe = *description_.Find(asked.recipe, asked.upsampler);
    if (asked.auto_length.has_value()) open_length = LimitsOfLength(recipe, asked);
    request = WithFrames(std::move(request), AssumedFrames(recipe, asked));
  }
  KINORA_ASSIGN_OR_RETURN(const auto text_tokens, CountTokens(tokenizer, request));
  const PlannedDecoder decoder = DecoderOf(modules_, options_.untiled_decode);
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, PlanStages(config_, description_, decoder, request, text_tokens));
  plan.open_length = open_length;
  return plan;
}

absl::StatusOr<RunPlan> DryModel::Plan(const GenerationRequest& asked, const Tokenizer* tokenizer) const {
  const TraceSpan span("plan", "dry_run");
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, PlanWithoutCosts(asked, tokenizer));
  const std::unique_ptr<ListingBackend> listing = options_.make_listing ? options_.make_listing() : nullptr;
  DryBackend plain(traits());
  DryBackend& backend = listing != nullptr ? *listing : plain;
  const DryOps& ops = backend.ops();
  Arena arena = Arena::Dry(), host = Arena::Dry();
  // Each call has its own counting communicators, so that several threads can plan at once.
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(mesh_->shape(), mesh_->world().rank()));
  Exec exec{.backend = backend,
            .arena = arena,
            .host = traits().unified_memory ? arena : host,
            .mesh = *mesh,
            .dtype = options_.precision.activations};
  std::vector<Cost> begin;
  StepGraphs graphs;
  RopeTables ropes;
  Generation generation(config_, modules_, graphs, ropes, plan, nullptr, nullptr);
  KINORA_RETURN_IF_ERROR(generation.Run(exec, [&](const StagePlan&, int64_t step, const StepLatents*) {
    if (step == 0) begin.push_back(ops.cost());
    return absl::OkStatus();
  }));
  begin.push_back(ops.cost());
  SetCounted(begin, generation, plan);
  plan.arena_bytes = arena.peak();
  plan.host_arena_bytes = host.peak();
  plan.weight_bytes = weight_bytes_;
  plan.workspace_bytes = traits().workspace_bytes + options_.text_cache_bytes;
  plan.evicted_bytes = evicted_bytes_;
  plan.driver_bytes = traits().driver_bytes;
  if (listing != nullptr) plan.one_time_work = listing->Take();
  return plan;
}

absl::StatusOr<std::array<int64_t, 2>> DryModel::CountTokens(const Tokenizer* tokenizer,
                                                             const GenerationRequest& request) const {
  const int64_t rows = modules_.text->rows();
  if (tokenizer == nullptr) return std::array{rows, rows};
  KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, tokenizer->Encode(StripWhiteSpace(request.prompt), rows));
  KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> negative,
                          tokenizer->Encode(StripWhiteSpace(request.negative_prompt.value_or("")), rows));
  return std::array<int64_t, 2>{static_cast<int64_t>(prompt.size()), static_cast<int64_t>(negative.size())};
}

}  // namespace kinora
