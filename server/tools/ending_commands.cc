// Commands that end jobs: cancel, delete.
#include <google/protobuf/empty.pb.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/api_call.h"
#include "server/tools/commands.h"
#include "server/tools/job_lookup.h"
#include "server/tools/job_text.h"
#include "server/tools/printing.h"
#include "server/tools/watcher.h"

namespace kinora {
namespace {

grpc::Status CancelJob(const Connection& connection, const std::string& id, v1::Video* video) {
  v1::CancelVideoRequest request;
  request.set_id(id);
  return Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::CancelVideo, request, video);
}

// Until the job has ended, whatever becomes of the connection meanwhile.
grpc::Status AwaitEnd(const Connection& connection, const std::string& id, v1::Video* video) {
  ProgressDisplay display(STDERR_FILENO, /*quiet=*/true);
  Watcher watcher(connection, display, {});
  return watcher.Watch(id, /*after_sequence=*/0, video);
}

// "cancelling", or what the job ended with.
std::string DescribeCancel(const v1::Video& video) {
  if (!IsTerminal(video.state())) return absl::StrCat(video.id(), ": cancelling");
  if (video.state() != v1::Video::CANCELLED) {
    return absl::StrCat(video.id(), ": had ended already, ", v1::Video::State_Name(video.state()));
  }
  const std::string reached = FormatReached(video.progress());
  return absl::StrCat(video.id(), ": cancelled", reached.empty() ? "" : " at ", reached);
}

ExitStatus CancelOne(const Connection& connection, const std::string& id, const CommandLine& line) {
  v1::Video video;
  grpc::Status status = CancelJob(connection, id, &video);
  if (status.ok() && line.Has("wait") && !IsTerminal(video.state())) status = AwaitEnd(connection, id, &video);
  if (!status.ok()) return ReportError(status, line.Has("json"));
  PrintLine(line.Has("json") ? ToJson(video) : DescribeCancel(video));
  return kSuccess;
}

// All jobs that have not ended. Those that wait come first: the end of one that runs would start the next.
grpc::Status ListUnended(const Connection& connection, std::vector<std::string>* ids) {
  for (const auto& states : {std::vector{v1::Video::QUEUED}, std::vector{v1::Video::RUNNING, v1::Video::FINALIZING}}) {
    v1::ListVideosRequest request;
    for (const v1::Video::State state : states) request.add_states(state);
    do {
      v1::ListVideosResponse reply;
      grpc::Status status =
          Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::ListVideos, request, &reply);
      if (!status.ok()) return status;
      for (const v1::Video& video : reply.videos()) {  // one that has begun meanwhile is in both lists
        if (std::find(ids->begin(), ids->end(), video.id()) == ids->end()) ids->push_back(video.id());
      }
      request.set_page_token(reply.next_page_token());
    } while (!request.page_token().empty());
  }
  return grpc::Status::OK;
}

ExitStatus CancelAll(const Connection& connection, const CommandLine& line) {
  std::vector<std::string> ids;
  const grpc::Status status = ListUnended(connection, &ids);
  if (!status.ok()) return ReportError(status, line.Has("json"));
  if (ids.empty()) std::fprintf(stderr, "no job waits or runs\n");
  ExitStatus worst = kSuccess;
  for (const std::string& id : ids) {
    const ExitStatus one = CancelOne(connection, id, line);
    if (one == kUnreachable) return one;
    if (one != kSuccess) worst = one;
  }
  return worst;
}

ExitStatus Cancel(const CommandLine& line) {
  if (line.operands().empty() != line.Has("all")) {
    return ReportLocalError(absl::InvalidArgumentError("cancel: give either an ID or --all"));
  }
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  if (line.Has("all")) return CancelAll(*connection, line);
  std::string id;
  const grpc::Status status = FindJob(*connection, line.operands()[0], &id);
  return status.ok() ? CancelOne(*connection, id, line) : ReportError(status, line.Has("json"));
}

ExitStatus Delete(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  v1::DeleteVideoRequest request;
  google::protobuf::Empty reply;
  grpc::Status status = FindJob(*connection, line.operands()[0], request.mutable_id());
  if (status.ok() && line.Has("force")) {
    v1::Video video;
    status = CancelJob(*connection, request.id(), &video);
    if (status.ok() && !IsTerminal(video.state())) status = AwaitEnd(*connection, request.id(), &video);
  }
  if (status.ok()) {
    status = Call<v1::VideoGeneration>(*connection, &v1::VideoGeneration::Stub::DeleteVideo, request, &reply);
  }
  if (!status.ok()) {
    const ExitStatus exit_status = ReportError(status, line.Has("json"));
    const bool runs = status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
    if (runs && !line.Has("json")) std::fprintf(stderr, "  `kinora delete --force` cancels it first\n");
    return exit_status;
  }
  PrintLine(line.Has("json") ? "{}" : absl::StrCat("deleted ", request.id()));
  return kSuccess;
}

}  // namespace

absl::Span<const Command> EndingCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"cancel",
       "[ID]",
       "cancels a job; one that has ended stays as it is",
       1,
       {{"all", "", "every job that waits or runs, in the place of ID"},
        {"wait", "", "until the run has ended, which is at its next step"}},
       Cancel},
      {"delete",
       "ID",
       "deletes a job's record and files",
       1,
       {{"force", "", "cancels the job first and waits for its end"}},
       Delete},
  };
  return *kCommands;
}

}  // namespace kinora
