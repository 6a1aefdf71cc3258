#include "server/tools/generate_command.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/tools/api_call.h"
#include "server/tools/batch.h"
#include "server/tools/clip_output.h"
#include "server/tools/clip_saving.h"
#include "server/tools/commands.h"
#include "server/tools/input_upload.h"
#include "server/tools/interrupts.h"
#include "server/tools/job_lookup.h"
#include "server/tools/media_flags.h"
#include "server/tools/open_file.h"
#include "server/tools/preview_output.h"
#include "server/tools/repeat.h"
#include "server/tools/request_flags.h"
#include "server/tools/serving_wait.h"
#include "server/tools/watcher.h"

namespace kinora {
namespace {

// What the flags say, checked as far as that needs no server.
struct Plan {
  std::vector<v1::CreateVideoRequest> requests;  // one per clip
  std::vector<LocalMedia> media;                 // that they want uploaded
  ClipOutput output;
  WatchOptions watch;
  bool detach, json, quiet, open;
  const v1::Video* earlier = nullptr;  // that is done once more; the caller's
};

absl::Status CheckTogether(const Plan& plan) {
  if (plan.output.to_standard_output() && (plan.json || plan.open)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", plan.json ? "json" : "open", ": not with --output -, which is the clip"));
  }
  if (plan.requests.size() == 1) return absl::OkStatus();
  if (plan.open) return absl::InvalidArgumentError("--open: is for one clip");
  if (plan.output.is_of_each_clip()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--output: several clips need a path each; put {seed}, {id} or {n} into it"));
}

// earlier: the job of --from; null: none.
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

// The job of --from, whole.
ExitStatus FindEarlier(const CommandLine& line, const Connection& connection, std::optional<v1::Video>& earlier) {
  const auto typed = line.Get("from");
  if (!typed) return kSuccess;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  Halt never;  // a signal ends the command
  v1::GetVideoRequest request;
  earlier.emplace();
  const grpc::Status status = CallWhenServing(connection, *wait, never, [&] {
    grpc::Status found = FindJob(connection, *typed, request.mutable_id(), never);
    if (!found.ok()) return found;
    return Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::GetVideo, request, &*earlier);
  });
  return status.ok() ? kSuccess : ReportError(status, line.Has("json"));
}

// What follows the end of the job: its file, and what is printed of it.
ExitStatus Save(const Connection& connection, const v1::Video& video, int n, ExitStatus outcome, Plan& plan,
                Halt& halt) {
  Saved saved{.exit_status = outcome};
  if (outcome == kSuccess) {
    saved = SaveArtifacts(
        connection, video, plan.output,
        {.n = n, .only = "", .json = plan.json, .patience = {.reconnect = plan.watch.reconnect, .halt = halt}});
    if (saved.exit_status != kSuccess) {
      std::fprintf(stderr, "%sthe file is kept; fetch it with: kinora download %s\n",
                   halt.raised() ? "left the download; " : "", video.id().c_str());
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

// What becomes of a job that this command has left; an empty id: of one whose acceptance is not known.
std::string DescribeLeft(const std::string& id, bool detach) {
  if (!id.empty()) {
    return absl::StrCat("left job ", id,
                        detach ? "; it goes on. Follow it with: kinora watch " + id : "; the server cancels it");
  }
  return detach ? "left; a job that was accepted goes on, and `kinora list` shows it"
                : "left; a job that was accepted is cancelled by the server after its disconnect grace";
}

// Before there is a job: a Ctrl-C leaves what was sent, for the next time.
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
  display.Note("left; no job was started, and the next upload goes on where this one was");
  return kCancelled;
}

ExitStatus GenerateOne(const Connection& connection, Plan& plan) {
  ProgressDisplay display(STDERR_FILENO, plan.quiet);
  Watcher watcher(connection, display, plan.watch);
  Halt download;
  std::atomic<bool> ended = false;  // the job, so that a Ctrl-C is about its file
  const Interrupts interrupts([&](int count) {
    if (ended) return download.Raise();
    if (count > 1 || plan.detach || watcher.IsWaitingForServer()) return watcher.Leave();
    display.Note("cancelling the job; once more leaves it to the server");
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
    display.Note("cancelling the clips that are not done; once more leaves them to the server");
    batch.Cancel();
  });
  return batch.Run(plan.requests, plan.json);
}

}  // namespace

std::vector<FlagSpec> GenerateFlags() {
  std::vector<FlagSpec> flags(RequestFlags().begin(), RequestFlags().end());
  flags.insert(flags.end(), MediaFlags().begin(), MediaFlags().end());
  flags.push_back({"from", "ID",
                   "does that job once more, with what other flags change: the same bytes on the same build, device, "
                   "precision and ranks; otherwise it is said what differs"});
  flags.push_back({"output", "PATH",
                   "a file, whose ending says its kind: .mp4, .webm, .wav or .zip (PNG frames); a folder, "
                   "existing or with / at its end: PNG frames in it; -: standard output; absent: JOB.mp4 here. "
                   "{seed}, {id} and {n} (of a batch) in it stand for the clip's. An existing file is replaced"});
  flags.insert(flags.end(), BatchFlags().begin(), BatchFlags().end());
  flags.insert(flags.end(), PreviewFlags().begin(), PreviewFlags().end());
  flags.push_back({"open", "", "shows the clip in the desktop's program for it (xdg-open)"});
  flags.push_back({"detach", "", "the job goes on when this command ends, and Ctrl-C only leaves it"});
  flags.insert(flags.end(), ServingWaitFlags().begin(), ServingWaitFlags().end());
  flags.push_back({"quiet", "", "no progress"});
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
  if (!plan->media.empty()) {
    if (const ExitStatus uploaded = Upload(*connection, *plan); uploaded != kSuccess) return uploaded;
  }
  return plan->requests.size() == 1 ? GenerateOne(*connection, *plan) : GenerateBatch(*connection, *plan);
}

}  // namespace kinora
