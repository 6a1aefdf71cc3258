// Commands that follow a job or fetch its files.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/artifact_download.h"
#include "server/tools/commands.h"
#include "server/tools/job_lookup.h"
#include "server/tools/job_text.h"
#include "server/tools/printing.h"
#include "server/tools/progress_display.h"
#include "server/tools/request_flags.h"
#include "server/tools/watcher.h"

namespace kinora {
namespace {

// Waits for SIGINT and SIGTERM on a thread of its own, so that the handler may make calls.
class Interrupts {
 public:
  // `on_interrupt(n)` for the n-th signal, from 1. main() has blocked both signals before any thread started.
  explicit Interrupts(std::function<void(int)> on_interrupt)
      : thread_([this, on_interrupt = std::move(on_interrupt)] {
          sigset_t signals = Signals();
          int signal = 0;
          for (int count = 1; sigwait(&signals, &signal) == 0 && !ended_; ++count) on_interrupt(count);
        }) {}
  ~Interrupts() {
    ended_ = true;
    pthread_kill(thread_.native_handle(), SIGINT);
    thread_.join();
  }

  static sigset_t Signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    return signals;
  }

 private:
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

absl::StatusOr<Connection> OpenApi(const CommandLine& line) {
  return Connection::Open(line, "server", "KINORA_SERVER", "127.0.0.1:8470");
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Where an artifact goes: --output names the first one's file, or a folder; others lie beside it under their own names.
std::string PathFor(const v1::Artifact& artifact, const std::string& video_id, const std::string& output, bool first) {
  namespace fs = std::filesystem;
  const std::string name = fs::path(artifact.file_name()).filename();  // never a path that the server chose
  std::string own = absl::StrCat(video_id, first ? fs::path(name).extension().string() : absl::StrCat(".", name));
  if (output.empty()) return own;
  if (IsDirectory(output)) return fs::path(output) / own;
  return first ? output : (fs::path(output).parent_path() / own).string();
}

struct Saved {
  ExitStatus exit_status = kSuccess;
  std::vector<std::string> paths;
};

Saved SaveArtifacts(const Connection& connection, const v1::Video& video, const std::string& output,
                    const std::string& only, bool json) {
  Saved saved;
  for (const v1::Artifact& artifact : video.artifacts()) {
    if (!only.empty() && artifact.id() != only) continue;
    const std::string path = PathFor(artifact, video.id(), output, saved.paths.empty());
    absl::Status local;
    const grpc::Status status = DownloadArtifact(connection, video.id(), artifact, path, &local);
    if (!status.ok() || !local.ok()) {
      saved.exit_status = status.ok() ? ReportLocalError(local) : ReportError(status, json);
      return saved;
    }
    saved.paths.push_back(path);
  }
  if (saved.paths.empty()) {
    saved.exit_status = ReportLocalError(
        absl::NotFoundError(only.empty() ? absl::StrCat("job ", video.id(), " has no files")
                                         : absl::StrCat("--artifact ", only, ": the job has no such file")));
  }
  return saved;
}

// Says how the job ended.
ExitStatus ReportOutcome(const v1::Video& video, ProgressDisplay& display) {
  if (video.state() == v1::Video::COMPLETED) return kSuccess;
  if (video.state() == v1::Video::CANCELLED) {
    display.Note(absl::StrCat("job ", video.id(), ": cancelled"));
    return kCancelled;
  }
  display.Note(absl::StrCat("job ", video.id(), ": failed: ", video.error().message()));
  return kFailed;
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

ExitStatus ReportBroken(const grpc::Status& status, const v1::Video& video, bool json) {
  const ExitStatus exit_status = ReportError(status, json);
  if (video.state() != v1::Video::STATE_UNSPECIFIED) {  // it was seen
    std::fprintf(stderr, "job %s was accepted; follow it with: kinora watch %s\n", video.id().c_str(),
                 video.id().c_str());
  }
  return exit_status;
}

void PrintGenerated(const v1::Video& video, const std::vector<std::string>& paths, bool json) {
  if (!json) {
    for (const std::string& path : paths) PrintLine(path);
    return;
  }
  v1::ListVideosRequest quoted;  // borrows a string field: protobuf quotes a path as JSON wants it
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    quoted.set_page_token(path);
    const std::string text = ToJson(quoted);  // {"page_token":"…"}
    files.push_back(text.substr(text.find(':') + 1, text.size() - text.find(':') - 2));
  }
  PrintLine(absl::StrCat("{\"video\":", ToJson(video), ",\"files\":[", absl::StrJoin(files, ","), "]}"));
}

// What follows the end of a job that `kinora generate` made: its file, and what is printed of it.
ExitStatus SaveGenerated(const Connection& connection, const v1::Video& video, const std::string& output,
                         ExitStatus outcome, bool json) {
  Saved saved{.exit_status = outcome, .paths = {}};
  if (outcome == kSuccess) {
    saved = SaveArtifacts(connection, video, output, "", json);
    if (saved.exit_status != kSuccess) {
      std::fprintf(stderr, "the file is kept; fetch it with: kinora download %s\n", video.id().c_str());
    }
  }
  if (json || saved.exit_status == kSuccess) PrintGenerated(video, saved.paths, json);
  return saved.exit_status;
}

ExitStatus Generate(const CommandLine& line) {
  const bool json = line.Has("json");
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  auto request = RequestFromFlags(line);
  if (!request.ok()) return ReportLocalError(request.status());
  const absl::Status prompt = CheckPrompt(line, request->generation());
  if (!prompt.ok()) return ReportLocalError(prompt);
  const auto reconnect = ReconnectOf(line);
  if (!reconnect.ok()) return ReportLocalError(reconnect.status());
  const auto serving_wait = ServingWaitOf(line);
  if (!serving_wait.ok()) return ReportLocalError(serving_wait.status());
  const bool detach = line.Has("detach");
  request->set_detach(detach);

  ProgressDisplay display(STDERR_FILENO, line.Has("quiet"));
  Watcher watcher(*connection, display, {.reconnect = *reconnect, .serving_wait = *serving_wait, .on_event = nullptr});
  v1::Video video;
  grpc::Status status;
  {
    const Interrupts interrupts([&](int count) {
      if (count > 1 || detach || watcher.IsWaitingForServer()) return watcher.Leave();
      display.Note("cancelling the job; once more leaves it to the server");
      watcher.CancelJob();
    });
    status = watcher.Generate(*request, &video);
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    display.Note(watcher.IsWaitingForServer() ? "left; no job was started" : DescribeLeft(video.id(), detach));
    return detach ? kUnreachable : kCancelled;
  }
  if (!status.ok()) return ReportBroken(status, video, json);

  return SaveGenerated(*connection, video, line.Get("output").value_or(""), ReportOutcome(video, display), json);
}

ExitStatus Watch(const CommandLine& line) {
  const bool json = line.Has("json");
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto reconnect = ReconnectOf(line);
  if (!reconnect.ok()) return ReportLocalError(reconnect.status());
  const auto after = line.GetInt("after-sequence", 0, std::numeric_limits<int64_t>::max());
  if (!after.ok()) return ReportLocalError(after.status());
  std::string id;
  grpc::Status status = FindJob(*connection, line.operands()[0], &id);
  if (!status.ok()) return ReportError(status, json);

  ProgressDisplay display(STDERR_FILENO, line.Has("quiet") || json);
  WatchOptions options;
  options.reconnect = *reconnect;
  if (json) options.on_event = [](const v1::VideoEvent& event) { PrintLine(ToJson(event)); };
  Watcher watcher(*connection, display, std::move(options));
  v1::Video video;
  {
    const Interrupts interrupts([&](int) { watcher.Leave(); });
    status = watcher.Watch(id, after->value_or(0), &video);
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    display.Note(absl::StrCat("left job ", video.id(), "; it goes on"));
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
  v1::GetVideoRequest request;
  v1::Video video;
  grpc::Status status = FindJob(*connection, line.operands()[0], request.mutable_id());
  if (status.ok()) {
    const auto stub = v1::VideoGeneration::NewStub(connection->channel());
    const auto context = connection->UnaryContext();
    status = stub->GetVideo(context.get(), request, &video);
  }
  if (!status.ok()) return ReportError(status, json);
  const Saved saved =
      SaveArtifacts(*connection, video, line.Get("output").value_or(""), line.Get("artifact").value_or(""), json);
  if (saved.exit_status == kSuccess) PrintGenerated(video, saved.paths, json);
  return saved.exit_status;
}

std::vector<FlagSpec> GenerateFlags() {
  std::vector<FlagSpec> flags(RequestFlags().begin(), RequestFlags().end());
  flags.push_back({"output", "PATH", "file or folder (also -o); absent: JOB.mp4 here. An existing file is replaced"});
  flags.push_back({"detach", "", "the job goes on when this command ends, and Ctrl-C only leaves it"});
  flags.insert(flags.end(), ServingWaitFlags().begin(), ServingWaitFlags().end());
  flags.push_back({"quiet", "", "no progress"});
  return flags;
}

}  // namespace

absl::Span<const Command> ClipCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"generate", "[PROMPT]",
       "makes a clip: sends the request, shows the steps, saves the file. Ctrl-C cancels the job", 1, GenerateFlags(),
       Generate, /*handles_signals=*/true},
      {"watch",
       "ID",
       "follows a job to its end; with --json one event per line. Ctrl-C leaves the job alone",
       1,
       {{"after-sequence", "N", "only stored events after this one"},
        {"reconnect", "DURATION", "how long a server may stay away; absent: 1m"},
        {"quiet", "", "no progress"}},
       Watch,
       /*handles_signals=*/true},
      {"download",
       "ID",
       "fetches a job's files",
       1,
       {{"output", "PATH", "file or folder (also -o); absent: JOB.mp4 here. An existing file is replaced"},
        {"artifact", "ID", "only this one"}},
       Download},
  };
  return *kCommands;
}

}  // namespace kinora
