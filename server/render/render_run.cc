#include "server/render/render_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/base/memory.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/media/file_sink.h"
#include "engine/media/output_file.h"
#include "engine/ops/backend.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/pipeline/pipeline.h"
#include "engine/processes/forked_ranks.h"
#include "engine/request/request_warnings.h"
#include "server/common/run_program.h"
#include "server/decode/input_reader.h"
#include "server/render/dump_sink.h"
#include "server/render/noise_file.h"
#include "server/render/render_plan.h"
#include "server/render/render_report.h"
#include "server/render/render_request.h"
#include "server/request/request_conversion.h"
#include "server/request/request_flags.h"
#include "server/terminal/progress_display.h"
#include "server/worker/output_options.h"
#include "server/worker/preview_jpeg.h"
#include "server/worker/remaining_time.h"

namespace kinora {
namespace {

// State shared by all ranks. Only rank 0 touches the times, the display and the summary.
struct Job {
  const RenderOptions& options;
  const std::atomic<bool>& cancelled;
  PipelineOptions pipeline{};
  GenerationRequest request{};
  RenderTimes times{Clock::Steady()};
  ProgressDisplay display;
  RenderSummary summary{};
};

absl::Status GoOn(const Job& job) {
  return job.cancelled ? absl::CancelledError("interrupted; nothing was written") : absl::OkStatus();
}

// Reads the files that the request names by their paths.
absl::Status ReadFiles(Job& job) {
  KINORA_ASSIGN_OR_RETURN(job.request, Pipeline::Resolve(job.pipeline, job.request));
  const auto open = [](const std::string& path) -> absl::StatusOr<FileDescriptor> {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // does not wait for a FIFO's writer
    if (!file.ok()) return absl::NotFoundError(absl::StrCat("input ", path, ": ", std::strerror(errno)));
    struct stat info;
    if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", path, ": is not a regular file"));
    }
    return file;
  };
  const DecoderOptions decoder{.binary = FolderOfThisProgram() + "/kinora-decode",
                               .go_on = [&job] { return GoOn(job); }};
  return ReadInputs({.decoder = decoder, .open = open}, job.request);
}

// Rejects digests: the command line names the file of a LoRA, which is not verified.
absl::Status CheckNoDigests(const GenerationRequest& request) {
  for (size_t i = 0; i < request.loras.size(); ++i) {
    if (request.loras[i].digest.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "loras[", i, "].digest: kinora-render does not verify the file of --model lora=ID:FILE; omit the digest"));
  }
  return absl::OkStatus();
}

absl::Status Prepare(Job& job) {
  const RenderOptions& options = job.options;
  KINORA_ASSIGN_OR_RETURN(job.pipeline.files, ModelFiles::Parse(options.model));
  job.pipeline.device = options.device;
  job.pipeline.precision = options.precision;
  job.pipeline.cuda = options.cuda;
  job.pipeline.untiled_decode = options.untiled_decode;
  job.pipeline.decoder_border = options.decoder_border;
  const int threads = options.threads != 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  job.pipeline.threads = std::max(1, threads / options.mesh.ranks());
  // Not before a fork: a device that was queried before does not survive it.
  if (options.mesh.ranks() > 1 && !options.processes) {
    KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {}));
    if (traits.device != "cpu") {
      return absl::InvalidArgumentError(absl::StrCat("--ranks ", options.mesh.ToString(), " on ", traits.device,
                                                     ": each process has one device; add --processes"));
    }
  }
  KINORA_ASSIGN_OR_RETURN(job.request, ToRenderRequest(options.generation, job.pipeline));
  KINORA_RETURN_IF_ERROR(CheckNoDigests(job.request));
  if (!options.noise_path.empty()) {
    KINORA_ASSIGN_OR_RETURN(job.request.noise, ReadNoiseFile(options.noise_path));
  }
  job.pipeline.inputs = NamesInputs(job.request);
  if (job.request.audio_only) job.pipeline.modalities = Modalities::kSound;
  return NamesInputs(job.request) ? ReadFiles(job) : absl::OkStatus();
}

struct Sinks {
  TeeSink tee;               // of file and dump
  DumpSink* dump = nullptr;  // null: not requested
};

absl::StatusOr<std::unique_ptr<Sinks>> MakeSinks(const Job& job) {
  auto sinks = std::make_unique<Sinks>();
  const RenderOptions& options = job.options;
  if (!options.output_path.empty()) {
    KINORA_ASSIGN_OR_RETURN(const Container container, ContainerForPath(options.output_path));
    KINORA_ASSIGN_OR_RETURN(const FileSinkOptions file,
                            ToFileSinkOptions(options.output, job.summary.effective, container));
    sinks->tee.Add(MakeFileSink(options.output_path, file));
  }
  if (!options.dump_path.empty()) {
    auto dump = std::make_unique<DumpSink>(options.dump_path);
    sinks->dump = dump.get();
    sinks->tee.Add(std::move(dump));
  }
  return sinks;
}

absl::Status ReportProgress(Job& job, RemainingTime& remaining, const Progress& progress) {
  job.times.Report(progress);
  const RunEstimate estimate = remaining.At(progress);
  job.display.Show({.stage = std::string(progress.stage.name()),
                    .step = progress.step,
                    .total_steps = progress.total_steps,
                    .fraction = estimate.fraction,
                    .remaining_seconds = estimate.remaining_seconds});
  return GoOn(job);
}

absl::Status WritePreview(const Job& job, const PreviewPicture& picture) {
  KINORA_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(job.options.preview_path));
  const v1::Generation& clip = job.summary.effective;
  KINORA_RETURN_IF_ERROR(file->Write(PreviewJpeg(picture, clip.width(), clip.height())));
  return file->Commit();
}

// Progress to the display, previews to their file, the rest to the dump.
class RenderObserver : public RunObserver {
 public:
  // map: for previews; nullopt: no previews.
  RenderObserver(Job& job, const RunPlan& plan, DumpSink* dump, std::optional<LatentToRgb> map)
      : job_(job),
        remaining_(
            plan, [](Stage) { return 0; }, Clock::Steady()),  // no earlier runs to learn from
        dump_(dump),
        map_(std::move(map)) {}
  bool WantsLatents(int64_t step, int64_t /*steps*/) const override {
    return map_.has_value() && step % job_.options.output.preview_every_steps() == 0;
  }
  absl::Status OnStage(const Progress& progress) override { return ReportProgress(job_, remaining_, progress); }
  absl::Status OnStep(const Progress& progress, const StepLatents* latents) override {
    KINORA_RETURN_IF_ERROR(ReportProgress(job_, remaining_, progress));
    if (latents == nullptr || !latents->x0.video.defined()) return absl::OkStatus();
    KINORA_ASSIGN_OR_RETURN(const PreviewPicture picture,
                            MakePreview(latents->exec, *map_, latents->stage.grid, latents->x0.video));
    return WritePreview(job_, picture);
  }
  bool WantsIntermediates() const override { return dump_ != nullptr; }
  absl::Status Intermediate(std::string_view name, const Tensor& value) override {
    return dump_->Intermediate(name, value);
  }
  absl::Status FloatFrames(int64_t first, const Tensor& rgb) override { return dump_->FloatFrames(first, rgb); }

 private:
  Job& job_;
  RemainingTime remaining_;
  DumpSink* const dump_;
  const std::optional<LatentToRgb> map_;
};

void CountCollectives(const Mesh& mesh, CollectiveCounts& counts) {
  for (int axis = 0; axis < kMeshAxes; ++axis) {
    const CollectiveCounts own = mesh.Counts(static_cast<MeshAxis>(axis));
    for (int i = 0; i < kCollectives; ++i) {
      counts[i].calls += own[i].calls;
      counts[i].bytes += own[i].bytes;
    }
  }
}

// limit: the memory that `ranks` ranks share. The kernel overcommits memory: without this check it would kill the
// process for a clip that does not fit.
absl::Status CheckFits(int ranks, const MemoryLimit& limit, const RunPlan& plan) {
  if (plan.FitsDevice(limit.bytes / ranks)) return absl::OkStatus();
  const int64_t needed = ranks * (plan.device_bytes() + plan.driver_bytes);
  const std::string why =
      absl::StrCat("width, height, num_frames: the model and clip need ", needed, " bytes of memory, and ", limit.by,
                   " leaves ", limit.bytes, "; make the clip smaller or shorter",
                   plan.untiled_decode ? absl::StrCat("; ", std::string(kUntiledNeedsMore)) : "");
  return limit.by == "this machine" ? absl::InvalidArgumentError(why) : absl::ResourceExhaustedError(why);
}

absl::Status NoteWarnings(Job& job, const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const ModelDescription model, Pipeline::DescribeFiles(job.pipeline));
  for (const std::string& warning : RequestWarnings(model, request)) job.display.Note("note: " + warning);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Pipeline>> LoadPipeline(Job& job, const Mesh& mesh, bool first) {
  PipelineOptions options = job.pipeline;
  // Before the device is opened, so that errors in the request are also reported where there is none.
  KINORA_ASSIGN_OR_RETURN(const RunPlan asked, Pipeline::Plan(options, mesh, job.request));
  if (first) KINORA_RETURN_IF_ERROR(NoteWarnings(job, asked.request));
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                          OpenBackend(options.device, {.threads = options.threads, .cuda = options.cuda}));
  const MemoryLimit limit = backend->usable_memory();
  const int sharers = RanksPerMemory(backend->traits(), mesh);
  const MemoryLimit share{limit.bytes / sharers, limit.by};
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, Pipeline::PlanWithin(share, mesh, job.request, options));
  KINORA_RETURN_IF_ERROR(CheckFits(sharers, limit, plan));
  if (first && plan.evicted_bytes > 0) job.display.Note("text encoder: " + plan.TextEncoderResidence());
  return Pipeline::LoadOn(std::move(backend), options, mesh, [&](std::string_view phase) {
    if (first) job.display.Show({.stage = std::string(phase)});
  });
}

absl::Status RenderOnRank(Job& job, const Mesh& mesh) {
  const bool first = mesh.world().rank() == 0;
  if (first) job.times.Begin("load");
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Pipeline> pipeline, LoadPipeline(job, mesh, first));
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, pipeline->Prepare(job.request));
  if (plan.open_length.has_value()) {
    ProgressObserver observer([&job](const Progress&) { return GoOn(job); });
    KINORA_ASSIGN_OR_RETURN(const int32_t frames, pipeline->ChooseFrames(plan, &observer));
    KINORA_ASSIGN_OR_RETURN(plan, pipeline->Prepare(WithFrames(job.request, frames)));
  }
  if (!first) return pipeline->Generate(plan, nullptr, nullptr);
  job.summary.effective = ToGeneration(plan.request);
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Sinks> sinks, MakeSinks(job));
  std::optional<LatentToRgb> map;
  if (job.options.output.preview_every_steps() > 0) {
    KINORA_ASSIGN_OR_RETURN(map, pipeline->FitLatentToRgb());
  }
  RenderObserver observer(job, plan, sinks->dump, std::move(map));
  KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, &sinks->tee, &observer));
  job.times.End();
  job.summary.peak_activation_bytes = pipeline->peak_arena_bytes();
  job.summary.planned_activation_bytes = plan.arena_bytes;
  job.summary.planned_weight_bytes = plan.weight_bytes;
  job.summary.planned_workspace_bytes = plan.workspace_bytes;
  CountCollectives(mesh, job.summary.collectives);
  return absl::OkStatus();
}

void PrintSummary(Job& job) {
  const RenderOptions& options = job.options;
  RenderSummary& summary = job.summary;
  summary.file = options.output_path.empty() ? options.dump_path : options.output_path;
  summary.precision = options.precision.ToString();
  summary.mesh = options.mesh.ToString();
  summary.peak_process_bytes = PeakProcessBytes();
  job.display.Clear();
  std::puts((options.json ? RenderSummaryJson(summary, job.times) : RenderSummaryText(summary, job.times)).c_str());
}

// Called for failed runs, too.
absl::Status WriteTrace(OutputFile& file) {
  KINORA_RETURN_IF_ERROR(file.Write(StopTrace()));
  return file.Commit();
}

// Rank 0's process prints the summary, because only it has the numbers.
absl::Status RenderInProcesses(Job& job) {
  return RunProcessRanks(job.options.mesh, job.options.device, job.cancelled, [&job](const Mesh& mesh) {
    absl::Status status = RenderOnRank(job, mesh);
    if (status.ok() && mesh.world().rank() == 0) PrintSummary(job);
    return status;
  });
}

}  // namespace

absl::Status Render(const RenderOptions& options, const std::atomic<bool>& cancelled) {
  if (options.plan) {
    KINORA_ASSIGN_OR_RETURN(const std::vector<PlanRow> rows, MakePlan(options));
    std::fputs(FormatPlan(rows, options).c_str(), stdout);
    return absl::OkStatus();
  }
  Job job{.options = options, .cancelled = cancelled, .display = ProgressDisplay(STDERR_FILENO, options.quiet)};
  KINORA_RETURN_IF_ERROR(Prepare(job));
  // Rejects what can be rejected before the minutes of loading and computing.
  job.summary.effective = options.generation;
  KINORA_RETURN_IF_ERROR(MakeSinks(job).status());
  if (ContainerForPath(options.output_path).value_or(Container::kMp4) == Container::kWav && !options.quiet) {
    const std::string warning = SoundAloneWarning(options.generation, v1::Output::WAV);
    if (!warning.empty()) job.display.Note(warning);
  }
  if (options.seed_drawn) job.display.Note(absl::StrCat("seed ", options.generation.seed()));
  std::unique_ptr<OutputFile> trace;
  if (!options.trace_path.empty()) {
    KINORA_ASSIGN_OR_RETURN(trace, OutputFile::Create(options.trace_path));
    StartTrace();
  }
  const bool processes = options.processes && options.mesh.ranks() > 1;
  const absl::Status status =
      processes ? RenderInProcesses(job)
                : RunThreadRanks(options.mesh, [&job](const Mesh& mesh) { return RenderOnRank(job, mesh); });
  const absl::Status traced = trace == nullptr ? absl::OkStatus() : WriteTrace(*trace);
  KINORA_RETURN_IF_ERROR(status);  // the first failure takes precedence
  KINORA_RETURN_IF_ERROR(traced);
  if (!processes) PrintSummary(job);
  return absl::OkStatus();
}

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:  // a truncated model file
      return 2;
    default:
      return 1;
  }
}

std::string ErrorLine(const absl::Status& status) {
  std::string line = absl::StrReplaceAll(status.message(), {{"\n", "; "}});
  return line.empty() ? status.ToString() : line;
}

}  // namespace kinora
