// Commands that are one unary call each.
#include <google/protobuf/empty.pb.h>

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/api_call.h"
#include "server/tools/commands.h"
#include "server/tools/printing.h"
#include "server/tools/request_flags.h"
#include "server/tools/serving_wait.h"

namespace kinora {
namespace {

constexpr char kAdminAddress[] = "unix:kinora-state/admin.sock";

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

ExitStatus Create(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto request = RequestFromFlags(line);
  if (!request.ok()) return ReportLocalError(request.status());
  const absl::Status prompt = CheckPrompt(line, request->generation());
  if (!prompt.ok()) return ReportLocalError(prompt);
  v1::Video video;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  const grpc::Status status = CallWhenServing(*connection, *wait, [&] {
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::CreateVideo, *request, &video);
  });
  return Answer(
      line, status, video, +[](const v1::Video& created) { return created.id(); });
}

ExitStatus EstimateCost(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto request = RequestFromFlags(line);
  if (!request.ok()) return ReportLocalError(request.status());
  v1::Estimate estimate;
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  const grpc::Status status = CallWhenServing(*connection, *wait, [&] {
    return Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::EstimateVideo, *request, &estimate);
  });
  return Answer(line, status, estimate, FormatEstimate);
}

ExitStatus Get(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  v1::GetVideoRequest request;
  v1::Video video;
  request.set_id(line.operands()[0]);
  const grpc::Status status =
      Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::GetVideo, request, &video);
  return Answer(line, status, video, FormatVideo);
}

absl::StatusOr<v1::ListVideosRequest> ListRequest(const CommandLine& line) {
  v1::ListVideosRequest request;
  const auto page_size = line.GetInt("page-size", 1, 1000);
  if (!page_size.ok()) return page_size.status();
  request.set_page_size(static_cast<int32_t>(page_size->value_or(0)));
  request.set_page_token(line.Get("page-token").value_or(""));
  for (const std::string& name : line.GetAll("state")) {
    v1::Video::State state;
    if (!v1::Video::State_Parse(absl::AsciiStrToUpper(name), &state)) {
      return absl::InvalidArgumentError(absl::StrCat("--state ", name, ": no such state"));
    }
    request.add_states(state);
  }
  return request;
}

ExitStatus List(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  auto request = ListRequest(line);
  if (!request.ok()) return ReportLocalError(request.status());
  while (true) {
    v1::ListVideosResponse reply;
    const grpc::Status status =
        Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::ListVideos, *request, &reply);
    if (!status.ok()) return ReportError(status, line.Has("json"));
    for (const v1::Video& video : reply.videos()) PrintLine(line.Has("json") ? ToJson(video) : FormatVideoRow(video));
    if (reply.next_page_token().empty()) return kSuccess;
    if (!line.Has("all")) {
      std::fprintf(stderr, "more: --page-token %s, or --all\n", reply.next_page_token().c_str());
      return kSuccess;
    }
    request->set_page_token(reply.next_page_token());
  }
}

ExitStatus Models(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto wait = ServingWaitOf(line);
  if (!wait.ok()) return ReportLocalError(wait.status());
  v1::ListModelsResponse reply;
  const auto lack = [&] { return std::string(reply.models().empty() ? "no worker has described a model yet" : ""); };
  // Why there is none yet, and whether waiting helps, is what a request would be refused with.
  const auto call = [&] {
    const grpc::Status status =
        Call<v1::Models>(*connection, &v1::Models::Stub::ListModels, google::protobuf::Empty(), &reply);
    if (!status.ok() || !reply.models().empty()) return status;
    v1::Estimate estimate;
    const grpc::Status refused = Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::EstimateVideo,
                                                           v1::CreateVideoRequest(), &estimate);
    return refused.error_code() == grpc::StatusCode::UNAVAILABLE ? refused : status;
  };
  const grpc::Status status = CallWhenServing(*connection, *wait, call, lack);
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

}  // namespace

absl::Span<const Command> JobCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"create", "[PROMPT]", "accepts a job, prints its id and returns at once; `kinora watch` follows it", 1,
       RequestFlagList(), Create},
      {"get", "ID", "shows a job", 1, {}, Get},
      {"list",
       "",
       "shows jobs, newest first",
       0,
       {{"state", "NAME", "only jobs in this state; may be given again"},
        {"page-size", "N", "jobs in one answer, 1 to 1000; absent: the server's default"},
        {"page-token", "TOKEN", "goes on where an answer ended"},
        {"all", "", "every page"}},
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
