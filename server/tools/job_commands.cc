// Commands that are one unary call each.
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
#include "absl/time/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/api_call.h"
#include "server/tools/commands.h"
#include "server/tools/input_upload.h"
#include "server/tools/job_lookup.h"
#include "server/tools/job_text.h"
#include "server/tools/media_flags.h"
#include "server/tools/printing.h"
#include "server/tools/progress_display.h"
#include "server/tools/request_flags.h"
#include "server/tools/serving_wait.h"

namespace kinora {
namespace {

constexpr char kAdminAddress[] = "unix:kinora-state/admin.sock";
constexpr int64_t kLargestPage = 500;  // of ListVideos

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

// The files that the flags name, if they name any.
ExitStatus Upload(const CommandLine& line, const Connection& connection, absl::Duration wait,
                  v1::CreateVideoRequest& request) {
  const auto media = AddMedia(line, *request.mutable_generation());
  if (!media.ok()) return ReportLocalError(media.status());
  Halt never;  // a signal ends this command
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
  Halt never;  // a signal ends this command
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  auto request = RequestFromFlags(line);
  if (!request.ok()) return ReportLocalError(request.status());
  const absl::Status prompt = CheckPrompt(line, request->generation(), "PROMPT");
  if (!prompt.ok()) return ReportLocalError(prompt);
  v1::Video video;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  if (const ExitStatus uploaded = Upload(line, *connection, *wait, *request); uploaded != kSuccess) return uploaded;
  const grpc::Status status = CallWhenServing(*connection, *wait, never, [&] {
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::CreateVideo, *request, &video);
  });
  return Answer(
      line, status, video, +[](const v1::Video& created) { return created.id(); });
}

ExitStatus EstimateCost(const CommandLine& line) {
  Halt never;  // a signal ends this command
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
  Halt never;  // a signal ends this command
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  v1::GetVideoRequest request;
  v1::Video video;
  grpc::Status status = FindJob(*connection, line.operands()[0], request.mutable_id(), never);
  if (status.ok()) {
    status = Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::GetVideo, request, &video);
  }
  return Answer(
      line, status, video, +[](const v1::Video& job) { return FormatVideo(job, absl::Now()); });
}

absl::StatusOr<v1::ListVideosRequest> ListRequest(const CommandLine& line) {
  v1::ListVideosRequest request;
  for (const std::string& name : line.GetAll("state")) {
    v1::Video::State state;
    if (!v1::Video::State_Parse(absl::AsciiStrToUpper(name), &state)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--state ", name, ": no such state; there are queued, running, completed, failed and cancelled"));
    }
    request.add_states(state);
  }
  for (const std::string& label : line.GetAll("label")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(label, absl::MaxSplits('=', 1));
    if (parts.first.empty() || !absl::StrContains(label, '=')) {
      return absl::InvalidArgumentError(absl::StrCat("--label ", label, ": KEY=VALUE is needed"));
    }
    (*request.mutable_labels())[parts.first] = parts.second;
  }
  return request;
}

// Of the terminal that standard output is; 0: it is none.
int TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void PrintVideos(const v1::ListVideosResponse& reply, bool first, bool json) {
  if (json) {
    for (const v1::Video& video : reply.videos()) PrintLine(ToJson(video));
  } else if (reply.videos_size() > 0) {
    const std::vector<v1::Video> videos(reply.videos().begin(), reply.videos().end());
    const std::vector<std::string> lines = FormatVideoRows(videos, absl::Now(), TerminalColumns());
    for (size_t i = first ? 0 : 1; i < lines.size(); ++i) PrintLine(lines[i]);
  }
}

// Page after page until `limit` jobs are printed.
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
      std::fprintf(stderr, "there are more: --limit N, or --all\n");
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
  Halt never;  // a signal ends this command
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  v1::ListModelsResponse reply;
  const auto lack = [&] { return std::string(reply.models().empty() ? "no worker has described a model yet" : ""); };
  // Why there is none yet, and whether waiting helps, is what a request would be refused with.
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
  const auto stub = v1::Admin::NewStub(connection->channel());
  const auto context = connection->UnaryContext();
  const grpc::Status status = ((*stub).*method)(context.get(), request, &group);
  return Answer(line, status, group, FormatGroup);
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
      {"create", "[PROMPT]", "accepts a job, prints its id and returns at once; `kinora watch` follows it", 1,
       WithMediaFlags(RequestFlagList()), Create},
      {"get", "ID", "shows all of a job; any beginning of its id will do that no other has", 1, {}, Get},
      {"list",
       "",
       "shows jobs, newest first, with the beginnings of their ids, by which every command knows them",
       0,
       {{"state", "queued|running|finalizing|completed|failed|cancelled",
         "only jobs in this state; may be given again"},
        {"label", "KEY=VALUE", "only jobs with this label; given again: with all of them"},
        {"limit", "N", "so many; absent: 50"},
        {"all", "", "however many there are"}},
       List},
      {"estimate", "[PROMPT]", "what a request would cost; starts nothing", 1, RequestFlagList(), EstimateCost},
      {"models", "", "models, their recipes, limits and defaults", 0, WaitFlagList(), Models},
  };
  return *kCommands;
}

absl::Span<const FlagSpec> AdminFlags() {
  static constexpr FlagSpec kFlags[] = {
      {"admin-server", "ADDRESS",
       "absent: $KINORA_ADMIN_SERVER, then unix:kinora-state/admin.sock (the default state directory)"}};
  return kFlags;
}

absl::Span<const Command> AdminCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"list", "", "worker groups and their ranks", 0, {}, ListGroups},
      {"drain",
       "GROUP",
       "ends the group's job, then takes it no more jobs",
       1,
       {},
       ChangeGroup<static_cast<GroupMethod>(&v1::Admin::Stub::DrainWorkerGroup)>},
      {"restart",
       "GROUP",
       "restarts the group's processes; its job is queued again",
       1,
       {},
       ChangeGroup<static_cast<GroupMethod>(&v1::Admin::Stub::RestartWorkerGroup)>},
  };
  return *kCommands;
}

ExitStatus ReportLocalError(const absl::Status& status) {
  std::fprintf(stderr, "kinora: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? kRefused : kError;
}

}  // namespace kinora
