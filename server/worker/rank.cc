#include "server/worker/rank.h"

#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/media/file_sink.h"
#include "server/common/artifact_writer.h"
#include "server/common/file_error.h"
#include "server/common/run_program.h"
#include "server/common/shape_fit.h"
#include "server/common/status_details.h"
#include "server/worker/output_options.h"
#include "server/worker/preview_sender.h"
#include "server/worker/speed.h"

namespace kinora {
namespace {

// Turns the model's progress into marks, and times steps and stages between them.
class ProgressMarks {
 public:
  ProgressMarks(const RunContext& context, const v1::Run& run, v1::RunResult& result)
      : context_(context), run_(run), result_(result) {}

  // Until then no time is expected.
  void SetPrepared(const PreparedRun* prepared) { prepared_ = prepared; }

  absl::Status Report(const Progress& progress) {
    const absl::Time now = Clock::Steady().Now();
    ++context_.units_done;
    if (progress.stage != stage_ || progress.step == 0) {
      EndStage(now);
      BeginStage(progress, now);
    }
    if (progress.step > 0) Step(progress, now);
    return context_.cancelled ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  const std::string& stage() const { return stage_; }  // the present one

  // Ends the last stage.
  void EndStage(absl::Time now) {
    if (stage_.empty()) return;
    const double seconds = absl::ToDoubleSeconds(now - stage_begin_);
    (*result_.mutable_usage()->mutable_stage_seconds())[stage_] += seconds;
    context_.metrics.stage_duration_seconds.Add({{"stage", stage_}}, StageBuckets()).Observe(seconds);
    stage_.clear();
  }

 private:
  void BeginStage(const Progress& progress, absl::Time now) {
    stage_ = progress.stage;
    stage_begin_ = last_step_ = now;
    v1::WorkerMessage message;
    v1::StageMark& mark = *message.mutable_stage();
    mark.set_video_id(run_.video_id());
    mark.set_attempt(run_.attempt());
    mark.set_stage(progress.stage);
    mark.set_total_steps(progress.total_steps);
    if (prepared_ != nullptr) mark.set_expected_seconds(context_.model.ExpectedSeconds(*prepared_, progress.stage));
    context_.send(message);
  }

  void Step(const Progress& progress, absl::Time now) {
    const double seconds = absl::ToDoubleSeconds(now - last_step_);
    last_step_ = now;
    if (progress.total_steps > 0 && progress.stage.rfind("denoise", 0) == 0) {
      result_.set_step_reached(progress.step);
      context_.metrics.denoise_step_seconds.Add({{"stage", progress.stage}}, StepBuckets()).Observe(seconds);
    }
    v1::WorkerMessage message;
    v1::StepMark& mark = *message.mutable_step();
    mark.set_video_id(run_.video_id());
    mark.set_attempt(run_.attempt());
    mark.set_stage(progress.stage);
    mark.set_step(progress.step);
    mark.set_total_steps(progress.total_steps);
    mark.set_fraction(progress.fraction);
    mark.set_remaining_seconds(progress.remaining_seconds);
    mark.set_seconds(seconds);
    context_.send(message);
  }

  const RunContext& context_;
  const v1::Run& run_;
  v1::RunResult& result_;
  const PreparedRun* prepared_ = nullptr;
  std::string stage_;
  absl::Time stage_begin_, last_step_;
};

void SendResolved(const RunContext& context, const v1::Run& run, const PreparedRun& prepared) {
  v1::WorkerMessage message;
  v1::ResolvedMark& mark = *message.mutable_resolved();
  mark.set_video_id(run.video_id());
  mark.set_attempt(run.attempt());
  *mark.mutable_resolved() = context.model.Resolve(prepared);
  context.send(message);
}

// Where files are written, and how they go on from there to the frontend; null: they are there.
struct Artifacts {
  DirectoryArtifactStore& store;
  UploadLine* uploads;
  const RunInputs& inputs;
};

absl::StatusOr<StoredFile> Deliver(const RunContext& context, const v1::Run& run, UploadLine* uploads,
                                   const std::string& name, const std::string& file, ArtifactWriter& writer) {
  if (uploads == nullptr) return writer.Commit();
  absl::StatusOr<StoredFile> sent = uploads->Upload(run, name, file, [&context] {
    ++context.units_done;
    return context.cancelled ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  });
  if (!sent.ok()) return writer.ForClients(sent.status());
  return sent;
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

// A run's trace, on the ranks alike: begun before it is planned, forgotten if it fails.
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

absl::Status AddTraceArtifact(const RunContext& context, const std::string& trace, const Artifacts& artifacts,
                              const v1::Run& run, v1::RunResult& result) {
  const std::string name = "trace.json";
  ArtifactWriter writer(artifacts.store, run.artifact_key());
  KINORA_ASSIGN_OR_RETURN(const std::string path, writer.Begin(name));
  std::ofstream file(path, std::ios::binary);
  file.write(trace.data(), static_cast<std::streamsize>(trace.size()));
  file.close();
  if (!file) return writer.ForClients(FileError(path, "write"));
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, Deliver(context, run, artifacts.uploads, name, path, writer));
  *result.add_artifacts() = ToArtifact(name, "application/json", stored);
  return absl::OkStatus();
}

// A run that the reserved memory is too small for ends as if it had been refused at once.
absl::Status RefusedOrFailed(const Model& model, const PreparedRun& prepared, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  const v1::Estimate estimate = model.Estimate(prepared);
  return estimate.fits() ? status : ShapeTooLarge(estimate);
}

// Between two steps that are told.
absl::Status GoOn(const RunContext& context) {
  ++context.units_done;
  return context.cancelled ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
}

// Hears the run: to marks, and where they are asked for to previews. ready: what fails on this rank alone is told
// inside.
class LeadObserver : public RunObserver {
 public:
  LeadObserver(const RunContext& context, const absl::Status& ready, ProgressMarks& marks,
               const PreviewSender& previews)
      : context_(context), ready_(ready), marks_(marks), previews_(previews) {}
  absl::Status OnStage(const Progress& progress) override { return ready_.ok() ? marks_.Report(progress) : ready_; }
  bool WantsLatents(int64_t step, int64_t /*steps*/) const override { return previews_.WantsStep(step); }
  absl::Status OnStep(const Progress& progress, const StepLatents* latents) override {
    const absl::Status status = OnStage(progress);
    return status.ok() && latents != nullptr ? previews_.Send(progress, *latents) : status;
  }
  absl::Status OnWork() override { return GoOn(context_); }

 private:
  const RunContext& context_;
  const absl::Status& ready_;
  ProgressMarks& marks_;
  const PreviewSender& previews_;
};

// With the inputs that it names.
absl::StatusOr<PreparedRun> PrepareToLead(const RunContext& context, const RunInputs& inputs, const v1::Run& run,
                                          ProgressMarks& marks) {
  const auto go_on = [&context] { return GoOn(context); };
  const auto read = [&](GenerationRequest& request) -> absl::Status {
    KINORA_RETURN_IF_ERROR(marks.Report({.stage = "read_inputs", .remaining_seconds = -1}));
    return inputs.Read(run, go_on, request);
  };
  return context.model.PrepareRun(run.generation(), read, go_on);
}

// What the last stage of denoising has left on the weights.
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

absl::Status Lead(const RunContext& context, const Artifacts& artifacts, const v1::Run& run, ProgressMarks& marks,
                  v1::RunResult& result) {
  KINORA_ASSIGN_OR_RETURN(const FileSinkOptions options, ToFileSinkOptions(run.output(), run.generation()));
  const RunTrace traced(run);
  KINORA_ASSIGN_OR_RETURN(const PreparedRun prepared, PrepareToLead(context, artifacts.inputs, run, marks));
  marks.SetPrepared(&prepared);
  SendResolved(context, run, prepared);
  const std::string name = absl::StrCat(options.container == Container::kWav ? "audio." : "video.",
                                        std::string(ContainerExtension(options.container)));
  ArtifactWriter writer(artifacts.store, run.artifact_key());
  // Following ranks are on their way into the run: what fails on this one alone is told inside it, to all.
  const absl::StatusOr<std::string> file = writer.Begin(name);
  {
    const std::unique_ptr<ClipSink> sink = MakeFileSink(file.value_or(""), options);
    PreviewSender previews(context, run, prepared);
    const absl::Status ready = file.ok() ? previews.Prepare([&context] { return GoOn(context); }) : file.status();
    LeadObserver observer(context, ready, marks, previews);
    const absl::Status status = context.model.Generate(prepared, sink.get(), &observer, *result.mutable_usage());
    KINORA_RETURN_IF_ERROR(writer.ForClients(RefusedOrFailed(context.model, prepared, status)));
  }
  SetWorn(prepared.plan, result);
  std::string trace;
  if (traced.wanted()) {
    KINORA_ASSIGN_OR_RETURN(trace, context.model.EndTrace());
  }
  KINORA_RETURN_IF_ERROR(marks.Report({.stage = "finalize", .fraction = 1, .remaining_seconds = 0}));
  const absl::Time commit_begin = Clock::Steady().Now();
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, Deliver(context, run, artifacts.uploads, name, *file, writer));
  context.metrics.artifact_upload_seconds.Observe(absl::ToDoubleSeconds(Clock::Steady().Now() - commit_begin));
  *result.add_artifacts() = ToArtifact(name, ContainerMediaType(options.container), stored);
  if (traced.wanted()) KINORA_RETURN_IF_ERROR(AddTraceArtifact(context, trace, artifacts, run, result));
  marks.EndStage(Clock::Steady().Now());
  const auto& seconds = result.usage().stage_seconds();
  *result.mutable_speed() = ToRunSpeed(prepared.plan, {seconds.begin(), seconds.end()});
  return absl::OkStatus();
}

absl::Status Follow(const RunContext& context, const v1::Run& run, v1::RunResult& result) {
  KINORA_RETURN_IF_ERROR(ToFileSinkOptions(run.output(), run.generation()).status());  // as on rank 0
  const RunTrace traced(run);
  const auto go_on = [&context] { return GoOn(context); };
  KINORA_ASSIGN_OR_RETURN(const PreparedRun prepared,
                          context.model.PrepareRun(run.generation(), /*read=*/nullptr, go_on));
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
    status = Lead(context, {.store = store_, .uploads = uploads, .inputs = inputs_}, run, marks, result);
  } catch (const std::bad_alloc&) {  // of a string or a vector; what is large is reserved before a run
    status = absl::ResourceExhaustedError(absl::StrCat("out of memory in the stage ", marks.stage()));
  }
  marks.EndStage(Clock::Steady().Now());
  if (status.ok()) context.model.Observe(result.speed());
  EndResult(context, status, result);
  return result;
}

v1::RunResult FollowingRank::Run(const RunContext& context, const v1::Run& run) {
  v1::RunResult result = BeginResult(run);
  absl::Status status;
  try {
    status = Follow(context, run, result);
  } catch (const std::bad_alloc&) {  // on this rank alone: rank 0 has heard nothing of it
    status = absl::AbortedError("out of memory");
  }
  EndResult(context, status, result);
  return result;
}

std::unique_ptr<Rank> MakeRank(const RankContext& context, DirectoryArtifactStore& store, FileLines* lines) {
  if (context.rank == 0) return std::make_unique<LeadingRank>(store, lines, FolderOfThisProgram() + "/kinora-decode");
  return std::make_unique<FollowingRank>();
}

}  // namespace kinora
