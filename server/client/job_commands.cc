// Commands that use only unary calls, and uploads for `create`.
#include <google/protobuf/empty.pb.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/api_call.h"
#include "server/client/commands.h"
#include "server/client/input_upload.h"
#include "server/client/job_lookup.h"
#include "server/client/job_text.h"
#include "server/client/printing.h"
#include "server/client/serving_wait.h"
#include "server/request/media_flags.h"
#include "server/request/request_flags.h"
#include "server/terminal/progress_display.h"

namespace kinora {
namespace {

constexpr char kAdminAddress[] = "unix:kinora-state/admin.sock";
constexpr int64_t kLargestPage = 500;  // limit of ListVideos

absl::StatusOr<Connection> OpenAdmin(const CommandLine& line) {
  return Connection::Open(line, "admin-server", "KINORA_ADMIN_SERVER", kAdminAddress);
}

template <typename Reply>
ExitStatus Answer(const CommandLine& line, const grpc::Status& status, const Reply& reply,
                  std::string (*format)(const Reply&)) {
  if (!status.ok()) return ReportError(status, line.Has("json"));
  PrintLine(line.Has("json") ? ToJson(reply) : format(reply));
  return kSuccess;
}

// Uploads the files named by the flags, if any.
ExitStatus Upload(const CommandLine& line, const Connection& connection, absl::Duration wait,
                  v1::CreateVideoRequest& request) {
  const auto media = AddMedia(line, *request.mutable_generation());
  if (!media.ok()) return ReportLocalError(media.status());
  Halt never;  // a signal ends the process
  ProgressDisplay display(STDERR_FILENO, line.Has("json"));
  std::vector<v1::CreateVideoRequest> requests = {request};
  absl::Status local;
  const grpc::Status status =
      UploadMedia(connection, *media, {.reconnect = wait, .halt = never}, display, requests, &local);
  if (!local.ok()) return ReportLocalError(local);
  if (!status.ok()) return ReportError(status, line.Has("json"));
  request = std::move(requests[0]);
  return kSuccess;
}

ExitStatus Create(const CommandLine& line) {
  Halt never;  // a signal ends the process
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  auto request = RequestFromFlags(line);
  if (!request.ok()) return ReportLocalError(request.status());
  const absl::Status prompt = CheckPrompt(line, request->generation(), "PROMPT");
  if (!prompt.ok()) return ReportLocalError(prompt);
  const std::string warning = SoundAloneWarning(request->generation(), request->output().container());
  if (!warning.empty()) std::fprintf(stderr, "%s\n", warning.c_str());
  v1::Video video;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  if (const ExitStatus uploaded = Upload(line, *connection, *wait, *request); uploaded != kSuccess) return uploaded;
  const bool waits = *wait > absl::ZeroDuration();
  const grpc::Status status = CallWhenServing(*connection, *wait, never, [&] {
    grpc::Status served = waits ? grpc::Status::OK : AskWhetherServed(*connection, *request);
    if (!served.ok()) return served;
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::CreateVideo, *request, &video);
  });
  return Answer(
      line, status, video, +[](const v1::Video& created) { return created.id(); });
}

ExitStatus EstimateCost(const CommandLine& line) {
  Halt never;  // a signal ends the process
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto request = RequestFromFlags(line);
  if (!request.ok()) return ReportLocalError(request.status());
  v1::Estimate estimate;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  const grpc::Status status = CallWhenServing(*connection, *wait, never, [&] {
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::EstimateVideo, *request, &estimate);
  });
  return Answer(line, status, estimate, FormatEstimate);
}

ExitStatus Get(const CommandLine& line) {
  Halt never;  // a signal ends the process
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  v1::GetVideoRequest request;
  const auto links = line.GetDuration("links");
  if (!links.ok()) return ReportLocalError(links.status());
  if (links->has_value()) {
    request.set_link_seconds(std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(**links, absl::Seconds(1)))));
  }
  v1::Video video;
  grpc::Status status = FindJob(*connection, line.operands()[0], request.mutable_id(), never);
  if (status.ok()) {
    status = Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::GetVideo, request, &video);
  }
  return Answer(
      line, status, video, +[](const v1::Video& job) { return FormatVideo(job, Clock::Real().Now()); });
}

absl::StatusOr<v1::ListVideosRequest> ListRequest(const CommandLine& line) {
  v1::ListVideosRequest request;
  for (const std::string& name : line.GetAll("state")) {
    v1::Video::State state;
    if (!v1::Video::State_Parse(absl::AsciiStrToUpper(name), &state)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--state ", name, ": unknown state; known: queued, running, finalizing, completed, failed, cancelled"));
    }
    request.add_states(state);
  }
  for (const std::string& label : line.GetAll("label")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(label, absl::MaxSplits('=', 1));
    if (parts.first.empty() || !absl::StrContains(label, '=')) {
      return absl::InvalidArgumentError(absl::StrCat("--label ", label, ": must be KEY=VALUE"));
    }
    (*request.mutable_labels())[parts.first] = parts.second;
  }
  request.set_text(line.Get("text").value_or(""));
  request.set_ascending(line.Has("oldest-first"));
  return request;
}

// Width of the terminal on standard output; 0 if it is not a terminal.
int TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void PrintVideos(const v1::ListVideosResponse& reply, bool first, bool json) {
  if (json) {
    for (const v1::Video& video : reply.videos()) PrintLine(ToJson(video));
  } else if (reply.videos_size() > 0) {
    const std::vector<v1::Video> videos(reply.videos().begin(), reply.videos().end());
    const std::vector<std::string> lines = FormatVideoRows(videos, Clock::Real().Now(), TerminalColumns());
    for (size_t i = first ? 0 : 1; i < lines.size(); ++i) PrintLine(lines[i]);
  }
}

// Prints pages until `limit` jobs are printed.
ExitStatus ListJobs(const Connection& connection, v1::ListVideosRequest request, int64_t limit, bool json) {
  int64_t printed = 0;
  while (true) {
    request.set_page_size(static_cast<int32_t>(std::min<int64_t>(limit - printed, kLargestPage)));
    v1::ListVideosResponse reply;
    const grpc::Status status =
        Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::ListVideos, request, &reply);
    if (!status.ok()) return ReportError(status, json);
    PrintVideos(reply, printed == 0, json);
    printed += reply.videos_size();
    if (reply.next_page_token().empty()) break;
    if (printed >= limit) {
      std::fprintf(stderr, "there are more jobs; use --limit N or --all\n");
      break;
    }
    request.set_page_token(reply.next_page_token());
  }
  if (printed == 0) std::fprintf(stderr, "no jobs\n");
  return kSuccess;
}

ExitStatus List(const CommandLine& line) {
  constexpr int64_t kUsualLimit = 50, kAll = std::numeric_limits<int64_t>::max();
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto request = ListRequest(line);
  if (!request.ok()) return ReportLocalError(request.status());
  const auto limit = line.GetInt("limit", 1, kAll);
  if (!limit.ok()) return ReportLocalError(limit.status());
  return ListJobs(*connection, *request, line.Has("all") ? kAll : limit->value_or(kUsualLimit), line.Has("json"));
}

ExitStatus Models(const CommandLine& line) {
  Halt never;  // a signal ends the process
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  v1::ListModelsResponse reply;
  const auto lack = [&] { return std::string(reply.models().empty() ? "no worker has described a model yet" : ""); };
  // If there is no model, the error of an estimate tells why, and whether waiting helps.
  const auto call = [&] {
    grpc::Status status =
        Call<v1::Models>(*connection, &v1::Models::Stub::ListModels, google::protobuf::Empty(), &reply);
    if (!status.ok() || !reply.models().empty()) return status;
    v1::Estimate estimate;
    const grpc::Status refused = Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::EstimateVideo,
                                                           v1::CreateVideoRequest(), &estimate);
    return refused.error_code() == grpc::StatusCode::UNAVAILABLE ? refused : status;
  };
  const grpc::Status status = CallWhenServing(*connection, *wait, never, call, lack);
  if (!status.ok()) return ReportError(status, line.Has("json"));
  for (const v1::ModelInfo& model : reply.models()) PrintLine(line.Has("json") ? ToJson(model) : FormatModel(model));
  if (reply.models().empty()) std::fprintf(stderr, "kinora: %s\n", lack().c_str());
  return reply.models().empty() ? kUnreachable : kSuccess;
}

ExitStatus ListGroups(const CommandLine& line) {
  const auto connection = OpenAdmin(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  v1::ListWorkerGroupsResponse reply;
  const grpc::Status status =
      Call<v1::Admin>(*connection, &v1::Admin::Stub::ListWorkerGroups, google::protobuf::Empty(), &reply);
  if (!status.ok()) return ReportError(status, line.Has("json"));
  for (const v1::WorkerGroup& group : reply.groups()) PrintLine(line.Has("json") ? ToJson(group) : FormatGroup(group));
  return kSuccess;
}

using GroupMethod = grpc::Status (v1::Admin::Stub::*)(grpc::ClientContext*, const v1::WorkerGroupRequest&,
                                                      v1::WorkerGroup*);

template <GroupMethod method>
ExitStatus ChangeGroup(const CommandLine& line) {
  const auto connection = OpenAdmin(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  v1::WorkerGroupRequest request;
  v1::WorkerGroup group;
  request.set_id(line.operands()[0]);
  request.set_frontend(line.Get("frontend").value_or(""));
  const auto stub = v1::Admin::NewStub(connection->channel());
  const auto context = connection->UnaryContext();
  const grpc::Status status = ((*stub).*method)(context.get(), request, &group);
  return Answer(line, status, group, FormatGroup);
}

std::vector<FlagSpec> ChangeGroupFlags() {
  return {{"frontend", "ADDRESS",
           "the frontend that has the group, as `kinora admin list` shows it after \"at\"; needed "
           "only if groups of several have this ID"}};
}

std::vector<FlagSpec> WaitFlagList() { return {ServingWaitFlags().begin(), ServingWaitFlags().end()}; }

std::vector<FlagSpec> RequestFlagList() {
  std::vector<FlagSpec> flags(RequestFlags().begin(), RequestFlags().end());
  flags.insert(flags.end(), ServingWaitFlags().begin(), ServingWaitFlags().end());
  return flags;
}

std::vector<FlagSpec> WithMediaFlags(std::vector<FlagSpec> flags) {
  flags.insert(flags.end(), MediaFlags().begin(), MediaFlags().end());
  return flags;
}

}  // namespace

absl::Span<const Command> JobCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"create", "[PROMPT]", "submit a job, print its ID and return; `kinora watch` follows it", 1,
       WithMediaFlags(RequestFlagList()), Create},
      {"get",
       "ID",
       "show a job's details; any unique ID prefix works",
       1,
       {{"links", "DURATION",
         "if artifacts are in an S3 bucket, add links to them that work for so long without a token; at most 7d"}},
       Get},
      {"list",
       "",
       "list jobs, newest first, with short IDs",
       0,
       {{"state", "queued|running|finalizing|completed|failed|cancelled", "list only jobs in this state; repeatable"},
        {"label", "KEY=VALUE", "list only jobs with this label; repeatable: jobs must have all of them"},
        {"text", "WORDS", "list only jobs whose prompt contains each of these words; letter case does not matter"},
        {"oldest-first", "", "list the oldest jobs first"},
        {"limit", "N", "maximum number of jobs; default: 50"},
        {"all", "", "list all jobs"}},
       List},
      {"estimate", "[PROMPT]", "estimate what a request would cost, without running it", 1, RequestFlagList(),
       EstimateCost},
      {"models", "", "list models with their recipes, limits and defaults", 0, WaitFlagList(), Models},
  };
  return *kCommands;
}

absl::Span<const FlagSpec> AdminFlags() {
  static constexpr FlagSpec kFlags[] = {{"admin-server", "ADDRESS",
                                         "address of the Admin service; default: $KINORA_ADMIN_SERVER, then "
                                         "unix:kinora-state/admin.sock (the default state directory)"}};
  return kFlags;
}

absl::Span<const Command> AdminCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"list", "", "list worker groups and their ranks", 0, {}, ListGroups},
      {"drain", "GROUP", "finish the group's current job and give it no more", 1, ChangeGroupFlags(),
       ChangeGroup<static_cast<GroupMethod>(&v1::Admin::Stub::DrainWorkerGroup)>},
      {"restart", "GROUP", "restart the group's processes; its job returns to the queue", 1, ChangeGroupFlags(),
       ChangeGroup<static_cast<GroupMethod>(&v1::Admin::Stub::RestartWorkerGroup)>},
  };
  return *kCommands;
}

ExitStatus ReportLocalError(const absl::Status& status) {
  std::fprintf(stderr, "kinora: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? kRefused : kError;
}

}  // namespace kinora
