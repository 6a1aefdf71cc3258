#include "server/worker/rank.h"

#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/media/file_sink.h"
#include "server/common/artifact_names.h"
#include "server/common/artifact_writer.h"
#include "server/common/run_program.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/request/shape_fit.h"
#include "server/worker/output_options.h"
#include "server/worker/preview_sender.h"
#include "server/worker/remaining_time.h"
#include "server/worker/resume_keeper.h"
#include "server/worker/resume_start.h"
#include "server/worker/run_artifacts.h"
#include "server/worker/speed.h"
#include "server/worker/thumbnail.h"

namespace kinora {
namespace {

// Turns the model's progress into marks, and times steps and stages.
class ProgressMarks {
 public:
  ProgressMarks(const RunContext& context, const v1::Run& run, v1::RunResult& result)
      : context_(context), run_(run), result_(result) {}

  // Before this call, marks contain no expected times.
  void SetPrepared(const PreparedRun& prepared) {
    prepared_ = &prepared;
    remaining_.emplace(
        prepared.plan, [&](Stage stage) { return context_.model.ExpectedSeconds(prepared, stage); }, context_.steady,
        prepared.from.get());
  }

  // The share of the run that is done at this progress; 0 before SetPrepared.
  double FractionAt(const Progress& progress) const { return remaining_ ? remaining_->FractionAt(progress) : 0; }

  absl::Status Report(const Progress& progress) {
    const absl::Time now = context_.steady.Now();
    const RunEstimate estimate = remaining_ ? remaining_->At(progress) : RunEstimate{};
    ++context_.units_done;
    if (progress.stage != stage_ || progress.step == 0) {
      EndStage(now);
      BeginStage(progress, estimate, now);
    }
    if (progress.step > 0) Step(progress, estimate, now);
    return context_.cancelled ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  std::string stage() const { return stage_ ? std::string(stage_->name()) : ""; }  // the present stage

  // Ends the present stage, if any, at `now`.
  void EndStage(absl::Time now) {
    if (!stage_) return;
    const double seconds = absl::ToDoubleSeconds(now - stage_begin_);
    const std::string name(stage_->name());
    (*result_.mutable_usage()->mutable_stage_seconds())[name] += seconds;
    context_.metrics.stage_duration_seconds.Add({{"stage", name}}, StageBuckets()).Observe(seconds);
    stage_.reset();
  }

 private:
  void BeginStage(const Progress& progress, const RunEstimate& estimate, absl::Time now) {
    constexpr double kGenerous = 2;
    stage_ = progress.stage;
    stage_begin_ = last_step_ = now;
    v1::WorkerMessage message;
    v1::StageMark& mark = *message.mutable_stage();
    mark.set_video_id(run_.video_id());
    mark.set_attempt(run_.attempt());
    SetStage(progress.stage, mark);
    mark.set_total_steps(progress.total_steps);
    if (prepared_ != nullptr) {
      mark.set_expected_seconds(kGenerous * context_.model.ExpectedSeconds(*prepared_, progress.stage));
    }
    mark.set_fraction(estimate.fraction);
    mark.set_remaining_seconds(estimate.remaining_seconds);
    context_.send(message);
  }

  void Step(const Progress& progress, const RunEstimate& estimate, absl::Time now) {
    const double seconds = absl::ToDoubleSeconds(now - last_step_);
    last_step_ = now;
    if (progress.total_steps > 0 && progress.stage.kind == StageKind::kDenoise) {
      result_.set_step_reached(progress.step);
      const std::string name(progress.stage.name());
      context_.metrics.denoise_step_seconds.Add({{"stage", name}}, StepBuckets()).Observe(seconds);
    }
    v1::WorkerMessage message;
    v1::StepMark& mark = *message.mutable_step();
    mark.set_video_id(run_.video_id());
    mark.set_attempt(run_.attempt());
    SetStage(progress.stage, mark);
    mark.set_step(progress.step);
    mark.set_total_steps(progress.total_steps);
    mark.set_fraction(estimate.fraction);
    mark.set_remaining_seconds(estimate.remaining_seconds);
    mark.set_seconds(seconds);
    context_.send(message);
  }

  const RunContext& context_;
  const v1::Run& run_;
  v1::RunResult& result_;
  const PreparedRun* prepared_ = nullptr;
  std::optional<RemainingTime> remaining_;
  std::optional<Stage> stage_;
  absl::Time stage_begin_, last_step_;
};

void SendResolved(const RunContext& context, const v1::Run& run, const PreparedRun& prepared,
                  const std::string& not_resumed_because) {
  v1::WorkerMessage message;
  v1::ResolvedMark& mark = *message.mutable_resolved();
  mark.set_video_id(run.video_id());
  mark.set_attempt(run.attempt());
  v1::Resolved& resolved = *mark.mutable_resolved();
  resolved = context.model.Resolve(prepared);
  resolved.set_not_resumed_because(not_resumed_because);
  if (prepared.from != nullptr) {
    resolved.set_resumed_from_step(static_cast<int32_t>(prepared.from->step));
    resolved.set_resumed_from_stage(std::string(ResumedStage(prepared).name()));
  }
  context.send(message);
}

v1::Artifact ToArtifact(const std::string& name, std::string_view media_type, const StoredFile& stored) {
  v1::Artifact artifact;
  artifact.set_id(name);
  artifact.set_file_name(name);
  artifact.set_media_type(std::string(media_type));
  artifact.set_bytes(stored.bytes);
  artifact.set_sha256(stored.sha256);
  return artifact;
}

// Called between two reported steps.
absl::Status GoOn(const RunContext& context) {
  ++context.units_done;
  return context.cancelled ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
}

// A run's trace on this rank, if the run requests one: started before planning, discarded if the run fails.
class RunTrace {
 public:
  explicit RunTrace(const v1::Run& run) : wanted_(run.output().trace()) {
    if (wanted_) StartTrace();
  }
  ~RunTrace() {
    if (wanted_ && Tracing()) StopTrace();
  }
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;
  bool wanted() const { return wanted_; }

 private:
  const bool wanted_;
};

// What rank 0 exchanges with the frontend besides messages.
struct RunPlace {
  RunArtifacts artifacts;
  const RunInputs& inputs;
  absl::Duration checkpoint_interval;
};

// An artifact beside the clip.
struct SmallArtifact {
  std::string name;
  std::string_view media_type;
  std::string bytes;
};

absl::Status AddArtifact(const RunContext& context, const SmallArtifact& added, const RunArtifacts& artifacts,
                         const v1::Run& run, v1::RunResult& result) {
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored,
                          artifacts.Store(run, added.name, added.bytes, [&context] { return GoOn(context); }));
  *result.add_artifacts() = ToArtifact(added.name, added.media_type, stored);
  return absl::OkStatus();
}

// If the run does not fit the reserved memory, returns the error with which it would have been rejected before running.
absl::Status RejectedOrFailed(const Model& model, const PreparedRun& prepared, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  const v1::Estimate estimate = model.Estimate(prepared);
  return estimate.fits() ? status : ShapeTooLarge(estimate);
}

// Reports a run's progress as marks, sends the requested previews, and stores resume points. If `ready` is an error,
// ends the run with it on all ranks.
class LeadObserver : public RunObserver {
 public:
  LeadObserver(const RunContext& context, const absl::Status& ready, ProgressMarks& marks,
               const PreviewSender& previews, ResumeKeeper& keeper)
      : context_(context), ready_(ready), marks_(marks), previews_(previews), keeper_(keeper) {}
  absl::Status OnStage(const Progress& progress) override {
    if (!ready_.ok()) return ready_;
    const absl::Status go_on = marks_.Report(progress);
    return keeper_.HoldsBack(progress) ? absl::OkStatus() : go_on;
  }
  bool WantsLatents(int64_t step, int64_t /*steps*/) const override { return previews_.WantsStep(step); }
  absl::Status OnStep(const Progress& progress, const StepLatents* latents) override {
    const absl::Status status = OnStage(progress);
    return status.ok() && latents != nullptr ? previews_.Send(progress, *latents) : status;
  }
  bool WantsResumePoint(const Progress& progress) override { return keeper_.Wants(progress); }
  void OnResumePoint(ResumePoint&& point) override { keeper_.Keep(std::move(point)); }
  absl::Status OnWork() override { return GoOn(context_); }

 private:
  const RunContext& context_;
  const absl::Status& ready_;
  ProgressMarks& marks_;
  const PreviewSender& previews_;
  ResumeKeeper& keeper_;
};

// Returns CANCELLED if this machine is unfit; the job then runs on another worker.
absl::Status CheckFitness(const RunContext& context) {
  const absl::Status fit = context.fitness == nullptr ? absl::OkStatus() : context.fitness->Look();
  return fit.ok() ? fit : absl::CancelledError(absl::StrCat("the worker is unfit: ", std::string(fit.message())));
}

// Plans the run with the inputs that it names, finds where it begins, and sends both.
absl::StatusOr<PreparedRun> PrepareToLead(const RunContext& context, const RunInputs& inputs, const v1::Run& run,
                                          const absl::Status& fit, ProgressMarks& marks) {
  const auto go_on = [&context] { return GoOn(context); };
  const auto read = [&](const InputLimits& limits, GenerationRequest& request) -> absl::Status {
    KINORA_RETURN_IF_ERROR(fit);
    KINORA_RETURN_IF_ERROR(marks.Report({.stage = {StageKind::kReadInputs}}));
    return inputs.Read(run, limits, go_on, request);
  };
  ProgressObserver observer([&marks](const Progress& progress) { return marks.Report(progress); }, go_on);
  absl::StatusOr<PreparedRun> prepared = context.model.PrepareRun(run.generation(), read, observer);
  if (absl::IsResourceExhausted(prepared.status())) {  // while the model chose the clip's length
    KINORA_ASSIGN_OR_RETURN(const PreparedRun longest, context.model.Prepare(run.generation()));
    return RejectedOrFailed(context.model, longest, prepared.status());
  }
  KINORA_RETURN_IF_ERROR(prepared.status());
  ResumeStart start = FindResumeStart(context.model, inputs, run, *prepared, go_on);
  prepared->from = std::move(start.point);
  SendResolved(context, run, *prepared, start.why_not);
  return prepared;
}

// Reports the LoRAs that the last denoising stage has left applied to the weights.
void SetWorn(const RunPlan& plan, v1::RunResult& result) {
  for (const StagePlan& stage : plan.stages) {
    if (stage.kind != StageKind::kDenoise) continue;
    result.clear_loras();
    for (const AppliedLora& applied : stage.loras) {
      v1::LoraRef& lora = *result.add_loras();
      lora.set_id(applied.id);
      lora.set_strength(applied.strength);
      if (applied.lora != nullptr) lora.set_digest(applied.lora->digest());
    }
  }
}

// The measured speed of this attempt's stages. One that an earlier attempt began has none.
v1::RunSpeed SpeedOf(const PreparedRun& prepared, const v1::Usage& usage) {
  std::map<std::string, double> seconds(usage.stage_seconds().begin(), usage.stage_seconds().end());
  if (prepared.from != nullptr) seconds.erase(std::string(ResumedStage(prepared).name()));
  return ToRunSpeed(prepared.plan, seconds);
}

struct ClipFile {
  const absl::StatusOr<std::string>& path;
  const FileSinkOptions& options;
};

// A run on rank 0.
struct LedRun {
  const v1::Run& run;
  const PreparedRun& prepared;
  const RunArtifacts& artifacts;
  ResumeKeeper::Options keeping;
};

// Renders the clip into its file and returns its thumbnail if one is requested. If the file has no path, ends the run
// with that error on all ranks.
absl::StatusOr<std::string> Render(const RunContext& context, const LedRun& led, const ClipFile& file,
                                   ProgressMarks& marks, v1::RunResult& result) {
  const std::unique_ptr<ClipSink> sink = MakeFileSink(file.path.value_or(""), file.options);
  ThumbnailSink thumbnail(*sink);
  ClipSink* const clip = led.run.output().thumbnail() ? &thumbnail : sink.get();
  PreviewSender previews(context, led.run, led.prepared);
  const absl::Status ready =
      file.path.ok() ? previews.Prepare([&context] { return GoOn(context); }) : file.path.status();
  ResumeKeeper keeper(context, led.run, led.prepared, led.artifacts, led.keeping);
  LeadObserver observer(context, ready, marks, previews, keeper);
  const absl::Status status = context.model.Generate(led.prepared, clip, &observer, *result.mutable_usage());
  KINORA_RETURN_IF_ERROR(RejectedOrFailed(context.model, led.prepared, status));
  return thumbnail.jpeg();
}

absl::Status Lead(const RunContext& context, const RunPlace& place, const v1::Run& run, ProgressMarks& marks,
                  v1::RunResult& result) {
  const absl::Time begin = context.steady.Now();
  const auto go_on = [&context] { return GoOn(context); };
  const RunArtifacts& artifacts = place.artifacts;
  KINORA_ASSIGN_OR_RETURN(const FileSinkOptions options, ToFileSinkOptions(run.output(), run.generation()));
  const RunTrace traced(run);
  const absl::Status fit = CheckFitness(context);
  KINORA_ASSIGN_OR_RETURN(const PreparedRun prepared, PrepareToLead(context, place.inputs, run, fit, marks));
  marks.SetPrepared(prepared);
  const std::string name = absl::StrCat(options.container == Container::kWav ? "audio." : "video.",
                                        std::string(ContainerExtension(options.container)));
  ArtifactWriter writer(artifacts.store, run.artifact_key());
  // The following ranks are entering the run, so a failure of this rank alone is reported to all of them inside it.
  const absl::StatusOr<std::string> file = fit.ok() ? writer.Begin(name) : fit;
  const ResumeKeeper::Options keeping{.interval = place.checkpoint_interval,
                                      .begin = begin,
                                      .fraction = [&marks](const Progress& at) { return marks.FractionAt(at); }};
  const absl::StatusOr<std::string> thumbnail =
      Render(context, {run, prepared, artifacts, keeping}, {file, options}, marks, result);
  KINORA_RETURN_IF_ERROR(writer.ForClients(thumbnail.status()));
  std::vector<SmallArtifact> others;
  if (run.output().thumbnail()) others.push_back({kThumbnailArtifact, "image/jpeg", *thumbnail});
  SetWorn(prepared.plan, result);
  if (traced.wanted()) {
    KINORA_ASSIGN_OR_RETURN(const std::string trace, context.model.EndTrace());
    others.push_back({kTraceArtifact, "application/json", trace});
  }
  KINORA_RETURN_IF_ERROR(marks.Report({.stage = {StageKind::kFinalize}}));
  const absl::Time commit_begin = context.steady.Now();
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, artifacts.Deliver(run, name, *file, writer, go_on));
  context.metrics.artifact_upload_seconds.Observe(absl::ToDoubleSeconds(context.steady.Now() - commit_begin));
  *result.add_artifacts() = ToArtifact(name, ContainerMediaType(options.container), stored);
  for (const SmallArtifact& other : others) {
    KINORA_RETURN_IF_ERROR(AddArtifact(context, other, artifacts, run, result));
  }
  marks.EndStage(context.steady.Now());
  *result.mutable_speed() = SpeedOf(prepared, result.usage());
  return absl::OkStatus();
}

absl::Status Follow(const RunContext& context, const v1::Run& run, v1::RunResult& result) {
  KINORA_RETURN_IF_ERROR(ToFileSinkOptions(run.output(), run.generation()).status());  // as on rank 0
  const RunTrace traced(run);
  const auto go_on = [&context] { return GoOn(context); };
  ProgressObserver observer([&go_on](const Progress&) { return go_on(); }, go_on);
  KINORA_ASSIGN_OR_RETURN(const PreparedRun prepared,
                          context.model.PrepareRun(run.generation(), /*read=*/nullptr, observer));
  KINORA_RETURN_IF_ERROR(
      context.model.Generate(prepared, /*sink=*/nullptr, /*observer=*/nullptr, *result.mutable_usage()));
  return traced.wanted() ? context.model.EndTrace().status() : absl::OkStatus();
}

v1::RunResult BeginResult(const v1::Run& run) {
  v1::RunResult result;
  result.set_video_id(run.video_id());
  result.set_attempt(run.attempt());
  return result;
}

void EndResult(const RunContext& context, const absl::Status& status, v1::RunResult& result) {
  if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
  context.metrics.peak_bytes.Add({{"stage", "run"}}).Set(static_cast<double>(result.usage().peak_device_bytes()));
}

}  // namespace

v1::RunResult LeadingRank::Run(const RunContext& context, const v1::Run& run) {
  v1::RunResult result = BeginResult(run);
  ProgressMarks marks(context, run, result);
  absl::Status status;
  try {
    UploadLine* const uploads = lines_ == nullptr ? nullptr : &lines_->artifacts;
    const RunPlace place{.artifacts = {.store = store_, .uploads = uploads},
                         .inputs = inputs_,
                         .checkpoint_interval = checkpoint_interval_};
    status = Lead(context, place, run, marks, result);
  } catch (const std::bad_alloc&) {  // by a string or vector; large memory is reserved before a run
    status = absl::ResourceExhaustedError(absl::StrCat("out of memory in the stage ", marks.stage()));
  }
  marks.EndStage(context.steady.Now());
  if (status.ok()) context.model.Observe(result.speed());
  if (!status.ok() && !absl::IsCancelled(status) && !absl::IsAborted(status)) {
    const absl::Status fit = CheckFitness(context);
    if (!fit.ok()) status = fit;
  }
  EndResult(context, status, result);
  return result;
}

v1::RunResult FollowingRank::Run(const RunContext& context, const v1::Run& run) {
  v1::RunResult result = BeginResult(run);
  absl::Status status;
  try {
    status = Follow(context, run, result);
  } catch (const std::bad_alloc&) {  // on this rank alone; rank 0 does not know of it
    status = absl::AbortedError("out of memory");
  }
  EndResult(context, status, result);
  return result;
}

std::unique_ptr<Rank> MakeRank(const RankContext& context, FileArtifactStore& store, FileLines* lines,
                               absl::Duration checkpoint_interval) {
  if (context.rank == 0) {
    return std::make_unique<LeadingRank>(store, lines, FolderOfThisProgram() + "/kinora-decode", checkpoint_interval);
  }
  return std::make_unique<FollowingRank>();
}

}  // namespace kinora
