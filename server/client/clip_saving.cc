#include "server/client/clip_saving.h"

#include <google/protobuf/util/time_util.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/uninterrupted.h"
#include "server/client/commands.h"
#include "server/client/job_text.h"
#include "server/client/printing.h"
#include "server/common/artifact_names.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

// Writes at most PIPE_BUF bytes at a time, after poll reports room for them, so that a stalled reader does not delay a
// halt.
absl::Status WriteToStandardOutput(std::string_view bytes, const Halt& halt) {
  constexpr int kLookMilliseconds = 100;
  while (!bytes.empty()) {
    pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&output, 1, kLookMilliseconds) == 0) {
      if (halt.raised()) return absl::CancelledError("left");
      continue;
    }
    const size_t most = std::min<size_t>(bytes.size(), PIPE_BUF);
    const ssize_t n = Uninterrupted([&] { return write(STDOUT_FILENO, bytes.data(), most); });
    if (n < 0 && errno == EAGAIN) continue;
    if (n <= 0) return absl::ErrnoToStatus(errno, "writing to standard output");
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

// Returns the length of a WAV file: its sample bytes divided by its bytes per second. Nullopt if it is not one.
std::optional<double> WavSeconds(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const auto number = [](const char* bytes) {
    uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  char head[12] = "", chunk[8] = "", format[16] = "";
  file.read(head, sizeof(head));
  uint32_t bytes_per_second = 0;
  while (file.read(chunk, sizeof(chunk))) {
    const uint32_t size = number(chunk + 4);
    const absl::string_view id(chunk, 4);
    if (id == "data") return bytes_per_second > 0 ? std::optional(1.0 * size / bytes_per_second) : std::nullopt;
    const std::streampos next = file.tellg() + static_cast<std::streamoff>(size + size % 2);
    if (id == "fmt " && size >= sizeof(format) && file.read(format, sizeof(format)))
      bytes_per_second = number(format + 8);
    file.seekg(next);
  }
  return std::nullopt;
}

struct Source {
  const Connection& connection;
  const v1::Video& video;
  const DownloadPatience& patience;
};

// These functions return the server's status, and local errors in `local`.
grpc::Status Fetch(const Source& from, const v1::Artifact& artifact, OutputFile& file, absl::Status* local) {
  const auto write = [&file](std::string_view bytes) { return file.Write(bytes); };
  return DownloadArtifact(from.connection, from.video.id(), artifact, from.patience, write, local);
}

grpc::Status SaveBeside(const Source& from, const v1::Artifact& artifact, const std::string& path,
                        absl::Status* local) {
  auto file = OutputFile::Create(path);
  if (!file.ok()) {
    *local = file.status();
    return grpc::Status::OK;
  }
  grpc::Status status = Fetch(from, artifact, **file, local);
  if (status.ok() && local->ok()) *local = (*file)->Commit();
  return status;
}

// The job's first file: the clip.
grpc::Status SaveFirst(const Source& from, const v1::Artifact& artifact, ClipOutput& output, const std::string& path,
                       absl::Status* local) {
  if (output.to_standard_output()) {
    const auto write = [&from](std::string_view bytes) { return WriteToStandardOutput(bytes, from.patience.halt); };
    return DownloadArtifact(from.connection, from.video.id(), artifact, from.patience, write, local);
  }
  auto file = output.Begin();
  if (!file.ok()) {
    *local = file.status();
    return grpc::Status::OK;
  }
  grpc::Status status = Fetch(from, artifact, **file, local);
  if (status.ok() && local->ok()) *local = output.Place(**file, artifact, path);
  return status;
}

}  // namespace

Saved SaveArtifacts(const Connection& connection, const v1::Video& video, ClipOutput& output,
                    const SaveOptions& options) {
  const Source from{.connection = connection, .video = video, .patience = options.patience};
  const std::string& only = options.only;
  Saved saved;
  for (const v1::Artifact& artifact : video.artifacts()) {
    const bool wanted = only.empty() ? options.thumbnail || artifact.id() != kThumbnailArtifact : artifact.id() == only;
    if (!wanted) continue;
    const bool first = saved.paths.empty();
    const std::string path =
        first ? output.PathFor(video, artifact, options.n) : output.PathBeside(video, artifact, options.n);
    absl::Status local = first ? output.CheckEnding(artifact) : absl::OkStatus();
    grpc::Status status;
    if (local.ok()) {
      status = first ? SaveFirst(from, artifact, output, path, &local) : SaveBeside(from, artifact, path, &local);
    }
    const bool left = status.error_code() == grpc::StatusCode::CANCELLED || absl::IsCancelled(local);
    if (left && options.patience.halt.raised()) {
      saved.exit_status = kUnreachable;
      return saved;
    }
    if (!status.ok() || !local.ok()) {
      saved.exit_status = status.ok() ? ReportLocalError(local) : ReportError(status, options.json);
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

std::string DescribeClip(const v1::Video& video, const std::string& path) {
  const v1::Generation g = MadeOf(video);
  const bool wav = video.output().container() == v1::Output::WAV || fs::path(path).extension() == ".wav";
  std::string text = g.audio_only() || wav ? "audio" : absl::StrCat(g.width(), "x", g.height());
  const std::optional<double> seconds = wav                  ? WavSeconds(path)
                                        : g.frame_rate() > 0 ? std::optional(g.num_frames() / g.frame_rate())
                                                             : std::nullopt;
  if (seconds) absl::StrAppendFormat(&text, ", %.2f s", *seconds);
  absl::StrAppendFormat(&text, ", seed %d", g.seed());
  using google::protobuf::util::TimeUtil;
  const double took =
      TimeUtil::DurationToMilliseconds(video.end_time() - video.start_time()) / 1000.0;  // without time in the queue
  if (video.has_start_time() && video.has_end_time()) absl::StrAppendFormat(&text, ", took %.1f s", took);
  return text;
}

void PrintSaved(const v1::Video& video, const std::vector<std::string>& paths, bool json) {
  if (!json) {
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::string line = i == 0 ? absl::StrCat(paths[i], "  ", DescribeClip(video, paths[i])) : paths[i];
      if (paths[0] != "-") {
        PrintLine(line);
      } else {
        std::fprintf(stderr, "%s\n", line.c_str());
      }
    }
    return;
  }
  v1::ListVideosRequest quoted;  // uses protobuf to quote a path for JSON, in any string field
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    quoted.set_page_token(path);
    const std::string text = ToJson(quoted);  // {"page_token":"…"}
    files.push_back(text.substr(text.find(':') + 1, text.size() - text.find(':') - 2));
  }
  PrintLine(absl::StrCat("{\"video\":", ToJson(video), ",\"files\":[", absl::StrJoin(files, ","), "]}"));
}

ExitStatus ReportOutcome(const v1::Video& video, ProgressDisplay& display) {
  if (video.state() == v1::Video::COMPLETED) return kSuccess;
  if (video.state() == v1::Video::CANCELLED) {
    display.Note(absl::StrCat("job ", video.id(), ": cancelled"));
    return kCancelled;
  }
  display.Note(absl::StrCat("job ", video.id(), ": failed: ", video.error().message()));
  return kFailed;
}

ExitStatus ReportBroken(const grpc::Status& status, const v1::Video& video, bool json) {
  const ExitStatus exit_status = ReportError(status, json);
  if (video.state() != v1::Video::STATE_UNSPECIFIED) {  // it was accepted
    std::fprintf(stderr, "job %s was accepted; follow it with: kinora watch %s\n", video.id().c_str(),
                 video.id().c_str());
  }
  return exit_status;
}

}  // namespace kinora
