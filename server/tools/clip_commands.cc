// Commands about clips: generate (generate_command.h), watch, download.
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/api_call.h"
#include "server/tools/clip_output.h"
#include "server/tools/clip_saving.h"
#include "server/tools/commands.h"
#include "server/tools/generate_command.h"
#include "server/tools/input_upload.h"
#include "server/tools/interrupts.h"
#include "server/tools/job_lookup.h"
#include "server/tools/job_text.h"
#include "server/tools/printing.h"
#include "server/tools/progress_display.h"
#include "server/tools/serving_wait.h"
#include "server/tools/watcher.h"

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
    display.Note(absl::StrCat("left job ", id, "; it goes on"));
    return kUnreachable;
  }
  if (!status.ok()) return ReportBroken(status, video, json);
  const ExitStatus outcome = ReportOutcome(video, display);
  if (!json) PrintLine(FormatVideo(video, absl::Now()));
  return outcome;
}

ExitStatus Download(const CommandLine& line) {
  const bool json = line.Has("json");
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  auto output = ClipOutput::At(line.Get("output"));
  if (!output.ok()) return ReportLocalError(output.status());
  if (output->to_standard_output() && (json || isatty(STDOUT_FILENO) == 1)) {
    return ReportLocalError(absl::InvalidArgumentError(absl::StrCat(
        "--output -: ", json ? "not with --json, which is standard output too" : "standard output is a terminal")));
  }
  const auto reconnect = ReconnectOf(line), wait = ServingWaitOf(line);
  if (!reconnect.ok()) return ReportLocalError(reconnect.status());
  Halt halt;  // so that nothing is left of a file that is not whole
  const Interrupts interrupts([&](int) { halt.Raise(); });
  v1::GetVideoRequest request;
  v1::Video video;
  const grpc::Status status = CallWhenServing(*connection, *wait, halt, [&] {
    grpc::Status found = FindJob(*connection, line.operands()[0], request.mutable_id(), halt);
    if (!found.ok()) return found;
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::GetVideo, request, &video, halt);
  });
  const auto left = [] {
    std::fprintf(stderr, "left the download\n");
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
    display.Note("left; the next upload goes on where this one was");
    return kCancelled;
  }
  if (!local.ok()) return ReportLocalError(local);
  if (!status.ok()) return ReportError(status, json);
  PrintLine(json ? ToJson(input) : input.id());
  return kSuccess;
}

std::vector<FlagSpec> WatchFlags() {
  std::vector<FlagSpec> flags = {{"after-sequence", "N", "only stored events after this one"}};
  flags.insert(flags.end(), PreviewFlags().begin(), PreviewFlags().end());
  flags.push_back({"quiet", "", "no progress"});
  return WithServingWait(std::move(flags));
}

}  // namespace

absl::Span<const Command> ClipCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"generate", "[PROMPT]",
       "makes a clip: sends the request, shows the steps, saves the file. Ctrl-C cancels the job", 1, GenerateFlags(),
       Generate, /*handles_signals=*/true},
      {"watch", "ID", "follows a job to its end; with --json one event per line. Ctrl-C leaves the job alone", 1,
       WatchFlags(), Watch,
       /*handles_signals=*/true},
      {"upload",
       "FILE",
       "sends a picture, a clip or a sound, once, and prints the id that requests name it by. Ctrl-C leaves what was "
       "sent, "
       "and the next upload goes on there",
       1,
       {{"reconnect", "DURATION", "how long a server may stay away; absent: 1m"}, {"quiet", "", "no progress"}},
       Upload,
       /*handles_signals=*/true},
      {"download", "ID", "fetches a job's files", 1,
       WithServingWait({{"output", "PATH",
                         "file or folder, - is standard output; absent: here, named by the job and its kind of file. "
                         "{seed} and {id} in it stand for "
                         "the job's. An existing file is replaced"},
                        {"artifact", "ID", "only this one"}}),
       Download,
       /*handles_signals=*/true},
  };
  return *kCommands;
}

}  // namespace kinora
