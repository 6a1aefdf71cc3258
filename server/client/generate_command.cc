#include "server/client/generate_command.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/client/api_call.h"
#include "server/client/batch.h"
#include "server/client/clip_output.h"
#include "server/client/clip_saving.h"
#include "server/client/commands.h"
#include "server/client/input_upload.h"
#include "server/client/interrupts.h"
#include "server/client/job_lookup.h"
#include "server/client/open_file.h"
#include "server/client/preview_output.h"
#include "server/client/repeat.h"
#include "server/client/serving_wait.h"
#include "server/client/watcher.h"
#include "server/request/media_flags.h"
#include "server/request/request_flags.h"

namespace kinora {
namespace {

// The parsed flags, checked as far as possible without a server.
struct Plan {
  std::vector<v1::CreateVideoRequest> requests;  // one per clip
  std::vector<LocalMedia> media;                 // to be uploaded
  ClipOutput output;
  WatchOptions watch;
  bool detach, json, quiet, open;
  const v1::Video* earlier = nullptr;  // the job to repeat; not owned
};

absl::Status CheckTogether(const Plan& plan) {
  if (plan.output.to_standard_output() && (plan.json || plan.open)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", plan.json ? "json" : "open",
                     ": cannot be combined with --output -, which writes the clip to standard output"));
  }
  if (plan.requests.size() == 1) return absl::OkStatus();
  if (plan.open) return absl::InvalidArgumentError("--open: works for a single clip only");
  if (plan.output.is_of_each_clip()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--output: each clip needs its own path; put {seed}, {id} or {n} into it"));
}

// earlier: the job of --from, or null.
absl::StatusOr<Plan> PlanFromFlags(const CommandLine& line, const v1::Video* earlier) {
  KINORA_ASSIGN_OR_RETURN(v1::CreateVideoRequest request,
                          RequestFromFlags(line, earlier == nullptr ? v1::CreateVideoRequest() : RequestOf(*earlier)));
  KINORA_RETURN_IF_ERROR(CheckPrompt(line, request.generation(), "PROMPT"));
  KINORA_ASSIGN_OR_RETURN(PreviewOutput preview, PreviewOutput::FromFlag(line));
  if (preview.wanted() && request.output().preview_every_steps() == 0 && !line.Has("preview-every")) {
    request.mutable_output()->set_preview_every_steps(1);
  }
  KINORA_ASSIGN_OR_RETURN(ClipOutput output, ClipOutput::At(line.Get("output")));
  KINORA_RETURN_IF_ERROR(output.ChooseContainer(*request.mutable_output()));
  KINORA_ASSIGN_OR_RETURN(const absl::Duration reconnect, ReconnectOf(line));
  KINORA_ASSIGN_OR_RETURN(const absl::Duration serving_wait, ServingWaitOf(line));
  request.set_detach(line.Has("detach"));
  KINORA_ASSIGN_OR_RETURN(std::vector<LocalMedia> media, AddMedia(line, *request.mutable_generation()));
  KINORA_ASSIGN_OR_RETURN(std::vector<v1::CreateVideoRequest> requests, RequestsOfBatch(line, request));
  Plan plan{.requests = std::move(requests),
            .media = std::move(media),
            .output = std::move(output),
            .watch = {.reconnect = reconnect,
                      .serving_wait = serving_wait,
                      .preview = std::move(preview),
                      .on_event = nullptr},
            .detach = line.Has("detach"),
            .json = line.Has("json"),
            .quiet = line.Has("quiet"),
            .open = line.Has("open")};
  plan.earlier = earlier;
  KINORA_RETURN_IF_ERROR(CheckTogether(plan));
  return plan;
}

// Fetches the job of --from.
ExitStatus FindEarlier(const CommandLine& line, const Connection& connection, std::optional<v1::Video>& earlier) {
  const auto typed = line.Get("from");
  if (!typed) return kSuccess;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  Halt never;  // a signal ends the process
  v1::GetVideoRequest request;
  earlier.emplace();
  const grpc::Status status = CallWhenServing(connection, *wait, never, [&] {
    grpc::Status found = FindJob(connection, *typed, request.mutable_id(), never);
    if (!found.ok()) return found;
    return Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::GetVideo, request, &*earlier);
  });
  return status.ok() ? kSuccess : ReportError(status, line.Has("json"));
}

// Saves the files of an ended job and prints the result.
ExitStatus Save(const Connection& connection, const v1::Video& video, int n, ExitStatus outcome, Plan& plan,
                Halt& halt) {
  Saved saved{.exit_status = outcome};
  if (outcome == kSuccess) {
    saved = SaveArtifacts(connection, video, plan.output,
                          {.n = n,
                           .only = "",
                           .thumbnail = video.output().thumbnail(),
                           .json = plan.json,
                           .patience = {.reconnect = plan.watch.reconnect, .halt = halt}});
    if (saved.exit_status != kSuccess) {
      std::fprintf(stderr, "%sthe server keeps the file; fetch it with: kinora download %s\n",
                   halt.raised() ? "download interrupted; " : "", video.id().c_str());
    }
  }
  if (plan.json || saved.exit_status == kSuccess) PrintSaved(video, saved.paths, plan.json);
  if (plan.earlier != nullptr && outcome == kSuccess && !plan.quiet) {
    std::fprintf(stderr, "%s\n", DescribeRepetition(*plan.earlier, video).c_str());
  }
  if (!plan.open || saved.exit_status != kSuccess) return saved.exit_status;
  const absl::Status opened = OpenFile(saved.paths[0]);
  return opened.ok() ? kSuccess : ReportLocalError(opened);
}

// Describes what happens to a job that this command has left; an empty id: it is unknown whether the job was accepted.
std::string DescribeLeft(const std::string& id, bool detach) {
  if (!id.empty()) {
    return absl::StrCat("left job ", id,
                        detach ? "; it continues. Follow it with: kinora watch " + id : "; the server cancels it");
  }
  return detach ? "left; if the job was accepted, it continues, and `kinora list` shows it"
                : "left; if the job was accepted, the server cancels it after its disconnect grace period";
}

// Uploads the files before there is a job. After Ctrl-C the uploaded part stays, to be resumed.
ExitStatus Upload(const Connection& connection, Plan& plan) {
  ProgressDisplay display(STDERR_FILENO, plan.quiet);
  Halt halt;
  absl::Status local;
  grpc::Status status;
  {
    const Interrupts interrupts([&](int) { halt.Raise(); });
    status = UploadMedia(connection, plan.media, {.reconnect = plan.watch.reconnect, .halt = halt}, display,
                         plan.requests, &local);
  }
  if (status.ok() && local.ok()) return kSuccess;
  if (!halt.raised()) return local.ok() ? ReportError(status, plan.json) : ReportLocalError(local);
  display.Note("upload interrupted; no job was started, and the next upload of the file resumes this one");
  return kCancelled;
}

ExitStatus GenerateOne(const Connection& connection, Plan& plan) {
  ProgressDisplay display(STDERR_FILENO, plan.quiet);
  Watcher watcher(connection, display, plan.watch);
  Halt download;
  std::atomic<bool> ended = false;  // the job has ended; Ctrl-C now stops the download
  const Interrupts interrupts([&](int count) {
    if (ended) return download.Raise();
    if (count > 1 || plan.detach || watcher.IsWaitingForServer()) return watcher.Leave();
    display.Note("cancelling the job; press Ctrl-C again to leave it to the server");
    watcher.CancelJob();
  });
  v1::Video video;
  const grpc::Status status = watcher.Generate(plan.requests[0], &video);
  ended = true;
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    const bool started = !watcher.IsWaitingForServer();
    display.Note(started ? DescribeLeft(video.id(), plan.detach) : "left; no job was started");
    return started && !plan.detach ? kCancelled : kUnreachable;
  }
  if (!status.ok()) return ReportBroken(status, video, plan.json);
  return Save(connection, video, 1, ReportOutcome(video, display), plan, download);
}

ExitStatus GenerateBatch(const Connection& connection, Plan& plan) {
  ProgressDisplay display(STDERR_FILENO, plan.quiet);
  Halt download;
  Batch batch(connection, display, plan.watch, [&](const v1::Video& video, int n) {
    display.Clear();
    return Save(connection, video, n, ReportOutcome(video, display), plan, download);
  });
  const Interrupts interrupts([&](int count) {
    if (count > 1 || plan.detach) {
      download.Raise();
      return batch.Leave();
    }
    display.Note("cancelling the unfinished clips; press Ctrl-C again to leave them to the server");
    batch.Cancel();
  });
  return batch.Run(plan.requests, plan.json);
}

}  // namespace

std::vector<FlagSpec> GenerateFlags() {
  std::vector<FlagSpec> flags(RequestFlags().begin(), RequestFlags().end());
  flags.insert(flags.end(), MediaFlags().begin(), MediaFlags().end());
  flags.push_back({"from", "ID",
                   "repeat that job, with the changes from other flags. The same build, device, precision and ranks "
                   "give the same bytes; otherwise the command prints what differs"});
  flags.push_back(
      {"output", "PATH",
       "output file; its extension selects the format: .mp4, .webm, .wav or .zip (PNG frames). A folder (existing, or "
       "ending in /): PNG frames in it. -: standard output. Default: JOB.mp4 in the current folder. {seed}, {id} and "
       "{n} (number in a batch) are replaced by the clip's. Overwrites an existing file"});
  flags.insert(flags.end(), BatchFlags().begin(), BatchFlags().end());
  flags.insert(flags.end(), PreviewFlags().begin(), PreviewFlags().end());
  flags.push_back({"open", "", "open the clip in the desktop's default program (xdg-open)"});
  flags.push_back({"detach", "", "keep the job running when this command ends; Ctrl-C stops only this command"});
  flags.insert(flags.end(), ServingWaitFlags().begin(), ServingWaitFlags().end());
  flags.push_back({"quiet", "", "do not show progress"});
  return flags;
}

ExitStatus Generate(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  std::optional<v1::Video> earlier;
  if (const ExitStatus found = FindEarlier(line, *connection, earlier); found != kSuccess) return found;
  auto plan = PlanFromFlags(line, earlier ? &*earlier : nullptr);
  if (!plan.ok()) return ReportLocalError(plan.status());
  if (plan->output.to_standard_output() && isatty(STDOUT_FILENO) == 1) {
    return ReportLocalError(absl::InvalidArgumentError("--output -: standard output is a terminal"));
  }
  if (const absl::Status begun = plan->output.Open(); !begun.ok()) return ReportLocalError(begun);
  const v1::CreateVideoRequest& request = plan->requests[0];
  const std::string warning = SoundAloneWarning(request.generation(), request.output().container());
  if (!warning.empty() && !plan->quiet) std::fprintf(stderr, "%s\n", warning.c_str());
  if (!plan->media.empty()) {
    if (const ExitStatus uploaded = Upload(*connection, *plan); uploaded != kSuccess) return uploaded;
  }
  if (plan->watch.serving_wait == absl::ZeroDuration()) {
    const grpc::Status served = AskWhetherServed(*connection, plan->requests[0]);
    if (!served.ok()) return ReportError(served, plan->json);
  }
  return plan->requests.size() == 1 ? GenerateOne(*connection, *plan) : GenerateBatch(*connection, *plan);
}

}  // namespace kinora
