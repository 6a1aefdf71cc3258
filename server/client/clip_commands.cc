// Commands about clips: generate (generate_command.h), watch, upload, download.
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/api_call.h"
#include "server/client/clip_output.h"
#include "server/client/clip_saving.h"
#include "server/client/commands.h"
#include "server/client/generate_command.h"
#include "server/client/input_upload.h"
#include "server/client/interrupts.h"
#include "server/client/job_lookup.h"
#include "server/client/job_text.h"
#include "server/client/printing.h"
#include "server/client/serving_wait.h"
#include "server/client/watcher.h"
#include "server/terminal/progress_display.h"

namespace kinora {
namespace {

ExitStatus Watch(const CommandLine& line) {
  const bool json = line.Has("json");
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto reconnect = ReconnectOf(line), wait = ServingWaitOf(line);
  if (!reconnect.ok()) return ReportLocalError(reconnect.status());
  const auto after = line.GetInt("after-sequence", 0, std::numeric_limits<int64_t>::max());
  if (!after.ok()) return ReportLocalError(after.status());
  auto preview = PreviewOutput::FromFlag(line);
  if (!preview.ok()) return ReportLocalError(preview.status());
  ProgressDisplay display(STDERR_FILENO, line.Has("quiet") || json);
  WatchOptions options;
  options.preview = *std::move(preview);
  options.reconnect = *reconnect;
  options.serving_wait = *wait;
  if (json) options.on_event = [](const v1::VideoEvent& event) { PrintLine(ToJson(event)); };
  Watcher watcher(*connection, display, std::move(options));
  Halt halt;
  std::string id = line.operands()[0];
  v1::Video video;
  grpc::Status status;
  {
    const Interrupts interrupts([&](int) {
      halt.Raise();
      watcher.Leave();
    });
    status =
        CallWhenServing(*connection, *wait, halt, [&] { return FindJob(*connection, line.operands()[0], &id, halt); });
    if (status.ok()) status = watcher.Watch(id, after->value_or(0), &video);
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    display.Note(absl::StrCat("left job ", id, "; it continues"));
    return kUnreachable;
  }
  if (!status.ok()) return ReportBroken(status, video, json);
  const ExitStatus outcome = ReportOutcome(video, display);
  if (!json) PrintLine(FormatVideo(video, Clock::Real().Now()));
  return outcome;
}

ExitStatus Download(const CommandLine& line) {
  const bool json = line.Has("json");
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  auto output = ClipOutput::At(line.Get("output"));
  if (!output.ok()) return ReportLocalError(output.status());
  if (output->to_standard_output() && (json || isatty(STDOUT_FILENO) == 1)) {
    return ReportLocalError(absl::InvalidArgumentError(
        absl::StrCat("--output -: ", json ? "cannot be combined with --json, which also writes to standard output"
                                          : "standard output is a terminal")));
  }
  const auto reconnect = ReconnectOf(line), wait = ServingWaitOf(line);
  if (!reconnect.ok()) return ReportLocalError(reconnect.status());
  Halt halt;  // so that no incomplete file remains
  const Interrupts interrupts([&](int) { halt.Raise(); });
  v1::GetVideoRequest request;
  v1::Video video;
  const grpc::Status status = CallWhenServing(*connection, *wait, halt, [&] {
    grpc::Status found = FindJob(*connection, line.operands()[0], request.mutable_id(), halt);
    if (!found.ok()) return found;
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::GetVideo, request, &video, halt);
  });
  const auto left = [] {
    std::fprintf(stderr, "download interrupted\n");
    return kUnreachable;
  };
  if (halt.raised()) return left();
  if (!status.ok()) return ReportError(status, json);
  const SaveOptions options{.n = 1,
                            .only = line.Get("artifact").value_or(""),
                            .json = json,
                            .patience = {.reconnect = *reconnect, .halt = halt}};
  const Saved saved = SaveArtifacts(*connection, video, *output, options);
  if (saved.exit_status == kSuccess) PrintSaved(video, saved.paths, json);
  if (saved.exit_status != kSuccess && halt.raised()) return left();
  return saved.exit_status;
}

ExitStatus Upload(const CommandLine& line) {
  const bool json = line.Has("json");
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto reconnect = ReconnectOf(line);
  if (!reconnect.ok()) return ReportLocalError(reconnect.status());
  ProgressDisplay display(STDERR_FILENO, line.Has("quiet") || json);
  Halt halt;
  v1::Input input;
  absl::Status local;
  grpc::Status status;
  {
    const Interrupts interrupts([&](int) { halt.Raise(); });
    status =
        UploadFile(*connection, line.operands()[0], {.reconnect = *reconnect, .halt = halt}, display, &input, &local);
  }
  if (halt.raised() && !(status.ok() && local.ok())) {
    display.Note("upload interrupted; the next upload of this file resumes it");
    return kCancelled;
  }
  if (!local.ok()) return ReportLocalError(local);
  if (!status.ok()) return ReportError(status, json);
  PrintLine(json ? ToJson(input) : input.id());
  return kSuccess;
}

std::vector<FlagSpec> WatchFlags() {
  std::vector<FlagSpec> flags = {{"after-sequence", "N", "show only stored events after sequence number N"}};
  flags.insert(flags.end(), PreviewFlags().begin(), PreviewFlags().end());
  flags.push_back({"quiet", "", "do not show progress"});
  return WithServingWait(std::move(flags));
}

}  // namespace

absl::Span<const Command> ClipCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"generate", "[PROMPT]",
       "generate a clip: send the request, show progress, save the file; Ctrl-C cancels the job", 1, GenerateFlags(),
       Generate, /*handles_signals=*/true},
      {"watch", "ID", "follow a job until it ends; with --json, print one event per line; Ctrl-C does not stop the job",
       1, WatchFlags(), Watch,
       /*handles_signals=*/true},
      {"upload",
       "FILE",
       "upload an image, clip or sound and print its ID; an interrupted upload resumes",
       1,
       {{"reconnect", "DURATION", "how long to wait for an unreachable server; default: 1m"},
        {"quiet", "", "do not show progress"}},
       Upload,
       /*handles_signals=*/true},
      {"download", "ID", "download a job's files, except its thumbnail", 1,
       WithServingWait({{"output", "PATH",
                         "output file or folder; -: standard output; default: a file in the current folder, named "
                         "after the job. {seed} and {id} are replaced by the job's. Overwrites an existing file"},
                        {"artifact", "ID", "download only this artifact, such as thumbnail.jpg"}}),
       Download,
       /*handles_signals=*/true},
  };
  return *kCommands;
}

}  // namespace kinora
