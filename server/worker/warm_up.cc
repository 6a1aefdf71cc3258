#include "server/worker/warm_up.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/run_observer.h"
#include "engine/request/request_rules.h"

namespace kinora {
namespace {

// How long a rank waits for rank 0 to decide on the next clip.
constexpr absl::Duration kPatience = absl::Minutes(10);

class NoSink : public ClipSink {  // discards the clip
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

// Returns a request for a square clip of `cells` latent cells per side. The smallest clip that uses every kernel has
// two cells per side and two latent frames.
GenerationRequest WarmUpRequest(const ModelDescription& model, int32_t cells, int32_t latent_frames) {
  GenerationRequest request;
  // Prompts differ, because a cached prompt is not encoded again.
  request.prompt = absl::StrCat("warm-up of ", cells, " cells, ", latent_frames);
  request.width = request.height = cells * model.pixels_per_token;
  request.num_frames = (latent_frames - 1) * model.frames_per_token + 1;
  request.recipe = Recipe::kOneStage;  // every kind of model has it; its guidance uses the most kernels
  request.num_inference_steps = 2;
  return request;
}

// Runs the plan on every rank up to its stages of kind `last`, and returns the seconds of its stages.
absl::StatusOr<v1::RunSpeed> RunOnce(ModelRanks& ranks, const RunPlan& plan, StageKind last,
                                     const std::function<void()>& on_progress) {
  NoSink sink;
  std::map<std::string, double> stage_seconds;
  std::string stage;
  absl::Time begin;
  const auto enter = [&](const std::string& next) {
    const absl::Time now = Clock::Steady().Now();
    if (!stage.empty()) stage_seconds[stage] += absl::ToDoubleSeconds(now - begin);
    stage = next;
    begin = now;
  };
  ProgressObserver observer([&](const Progress& progress) {
    if (progress.stage.name() != stage) enter(std::string(progress.stage.name()));
    on_progress();
    const StagePlan* const planned = plan.Find(stage);  // null while LoRAs are put on or taken off
    return planned != nullptr && planned->kind > last ? absl::CancelledError("warm enough") : absl::OkStatus();
  });
  const absl::Status status = ranks.Generate(plan, &sink, &observer);
  if (!absl::IsCancelled(status)) KINORA_RETURN_IF_ERROR(status);
  if (status.ok()) enter("");  // otherwise the stage after `last` was entered, which is not timed
  return ToRunSpeed(plan, stage_seconds);
}

// The sizes of requests that name none, and those that the model was trained for. The default recipe comes last, so
// that its plans are the last to be dropped.
std::vector<GenerationRequest> UsualRequests(const ModelDescription& model) {
  std::vector<GenerationRequest> requests;
  for (const TrainedShape& shape : model.trained_shapes) {
    GenerationRequest& request = requests.emplace_back();
    request.recipe = model.default_recipe;
    request.width = shape.width;
    request.height = shape.height;
    request.num_frames = shape.num_frames;
  }
  for (const RecipeDescription& recipe : model.recipes) {
    GenerationRequest& request = requests.emplace_back();
    request.recipe = recipe.recipe;
    request.upsampler = recipe.upsampler;
  }
  requests.emplace_back().recipe = model.default_recipe;
  for (GenerationRequest& request : requests) request.prompt = "warm-up";
  return requests;
}

// Does the one-time work of the usual requests, if the backend has such work. Leaves out those that do not fit or are
// not accepted.
void DoAhead(Pipeline& pipeline, const WarmUpOptions& options) {
  for (const GenerationRequest& request : UsualRequests(options.model)) {
    if (!ResolveRequest(options.model, request).ok()) continue;
    const absl::StatusOr<RunPlan> plan = pipeline.Prepare(request);
    if (!plan.ok() || plan->arena_bytes > options.arena_bytes) continue;
    if (plan->one_time_work == nullptr) return;
    options.on_progress();
    pipeline.DoAhead(*plan);
  }
}

}  // namespace

// The first pass pays for cold pages; the second is timed. Then only denoising is timed at larger sizes, where
// attention has another share and matrix products another rate, while all of these together should take no longer than
// the small clip's denoising plus kMore, assuming that time grows no faster than FLOPs. Decoding is not repeated,
// because it takes longer and is easier to predict.
absl::Status WarmUp(ModelRanks& ranks, const WarmUpOptions& options, Speed& speed) {
  constexpr double kMore = 0.2;  // seconds
  Pipeline& pipeline = ranks.pipeline();
  KINORA_ASSIGN_OR_RETURN(const RunPlan small, pipeline.Prepare(WarmUpRequest(options.model, 2, 2)));
  KINORA_RETURN_IF_ERROR(RunOnce(ranks, small, StageKind::kDecodeAudio, options.on_progress).status());
  KINORA_ASSIGN_OR_RETURN(const v1::RunSpeed run, RunOnce(ranks, small, StageKind::kDecodeAudio, options.on_progress));
  speed.ObserveWarmUp(run);
  v1::StageSpeed last = run.stages(static_cast<int>(small.audio_stage));
  double left = last.seconds() + kMore;
  for (const auto& [cells, latent_frames] : {std::pair{2, 3}, {4, 4}, {8, 8}, {12, 12}, {16, 16}}) {
    const GenerationRequest request = WarmUpRequest(options.model, cells, latent_frames);
    if (!ResolveRequest(options.model, request).ok()) break;  // larger than the model accepts
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
    const double longest = last.seconds() * plan.stages[plan.audio_stage].cost.flops / last.flops();
    const bool more = longest <= left && plan.arena_bytes <= options.arena_bytes;
    KINORA_ASSIGN_OR_RETURN(const std::string answer,
                            ranks.FromRankZero(absl::StrCat("warm-up/", cells), more ? "more" : "", kPatience));
    if (answer.empty()) break;
    KINORA_ASSIGN_OR_RETURN(const v1::RunSpeed larger, RunOnce(ranks, plan, StageKind::kDenoise, options.on_progress));
    speed.ObserveWarmUp(larger);
    last = larger.stages(static_cast<int>(plan.audio_stage));
    left -= last.seconds();
  }
  DoAhead(pipeline, options);
  return absl::OkStatus();
}

}  // namespace kinora
