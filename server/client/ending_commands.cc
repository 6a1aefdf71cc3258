// Commands that end jobs: cancel, delete.
#include <google/protobuf/empty.pb.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/api_call.h"
#include "server/client/commands.h"
#include "server/client/job_cancel.h"
#include "server/client/job_lookup.h"
#include "server/client/job_text.h"
#include "server/client/printing.h"
#include "server/client/serving_wait.h"
#include "server/client/watcher.h"

namespace kinora {
namespace {

// Limits for waiting for a server that restarts. Without waiting, the job would run again after the restart.
struct Patience {
  absl::Duration serving_wait, reconnect;

  static absl::StatusOr<Patience> Of(const CommandLine& line) {
    Patience patience;
    KINORA_ASSIGN_OR_RETURN(patience.serving_wait, ServingWaitOf(line));
    KINORA_ASSIGN_OR_RETURN(patience.reconnect, ReconnectOf(line));
    return patience;
  }
};

// Resolves a prefix once, because it may match another job after this one is deleted.
grpc::Status Find(const Connection& connection, const std::string& typed, const Patience& patience, std::string* id) {
  Halt never;  // a signal ends the process
  return CallWhenServing(connection, patience.serving_wait, never,
                         [&] { return FindJob(connection, typed, id, never); });
}

grpc::Status CancelWhenServing(const Connection& connection, const std::string& id, const Patience& patience,
                               v1::Video* video) {
  Halt never;
  return CallWhenServing(connection, patience.serving_wait, never,
                         [&] { return CancelJob(connection, id, video, never); });
}

// Waits until the job has ended, also across broken connections.
grpc::Status AwaitEnd(const Connection& connection, const Patience& patience, v1::Video* video) {
  if (IsTerminal(video->state())) return grpc::Status::OK;
  ProgressDisplay display(STDERR_FILENO, /*quiet=*/true);
  WatchOptions options;
  options.reconnect = patience.reconnect;
  options.serving_wait = patience.serving_wait;  // the server may stop between the cancel and the first event
  Watcher watcher(connection, display, std::move(options));
  return watcher.Watch(std::string(video->id()), /*after_sequence=*/0, video);
}

// "cancelling", or how the job ended.
std::string DescribeCancel(const v1::Video& video) {
  if (!IsTerminal(video.state())) return absl::StrCat(video.id(), ": cancelling");
  if (video.state() != v1::Video::CANCELLED) {
    return absl::StrCat(video.id(), ": had already ended, ", v1::Video::State_Name(video.state()));
  }
  const std::string reached = FormatReached(video.progress());
  return absl::StrCat(video.id(), ": cancelled", reached.empty() ? "" : " at ", reached);
}

ExitStatus CancelOne(const Connection& connection, const std::string& typed, const Patience& patience,
                     const CommandLine& line) {
  v1::Video video;
  std::string id;
  grpc::Status status = Find(connection, typed, patience, &id);
  if (status.ok()) status = CancelWhenServing(connection, id, patience, &video);
  if (status.ok() && line.Has("wait")) status = AwaitEnd(connection, patience, &video);
  if (!status.ok()) return ReportError(status, line.Has("json"));
  PrintLine(line.Has("json") ? ToJson(video) : DescribeCancel(video));
  return kSuccess;
}

// Lists the unfinished jobs, queued ones first, because the end of a running job would start the next.
grpc::Status ListUnended(const Connection& connection, std::vector<std::string>* ids) {
  for (const auto& states : {std::vector{v1::Video::QUEUED}, std::vector{v1::Video::RUNNING, v1::Video::FINALIZING}}) {
    v1::ListVideosRequest request;
    for (const v1::Video::State state : states) request.add_states(state);
    do {
      v1::ListVideosResponse reply;
      grpc::Status status =
          Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::ListVideos, request, &reply);
      if (!status.ok()) return status;
      for (const v1::Video& video : reply.videos()) {  // a job that started meanwhile is in both lists
        if (std::find(ids->begin(), ids->end(), video.id()) == ids->end()) ids->push_back(video.id());
      }
      request.set_page_token(reply.next_page_token());
    } while (!request.page_token().empty());
  }
  return grpc::Status::OK;
}

ExitStatus CancelAll(const Connection& connection, const Patience& patience, const CommandLine& line) {
  Halt never;
  std::vector<std::string> ids;
  const grpc::Status status =
      CallWhenServing(connection, patience.serving_wait, never, [&] { return ListUnended(connection, &ids); });
  if (!status.ok()) return ReportError(status, line.Has("json"));
  if (ids.empty()) std::fprintf(stderr, "no queued or running jobs\n");
  ExitStatus worst = kSuccess;
  for (const std::string& id : ids) {
    const ExitStatus one = CancelOne(connection, id, patience, line);
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
  const auto patience = Patience::Of(line);
  if (!patience.ok()) return ReportLocalError(patience.status());
  if (line.Has("all")) return CancelAll(*connection, *patience, line);
  return CancelOne(*connection, line.operands()[0], *patience, line);
}

// If an earlier attempt may have been executed, NOT_FOUND means that it deleted the job.
grpc::Status DeleteJob(const Connection& connection, const v1::DeleteVideoRequest& request, const Patience& patience) {
  Halt never;
  google::protobuf::Empty reply;
  bool perhaps_deleted = false;
  return CallWhenServing(connection, patience.serving_wait, never, [&] {
    grpc::Status status =
        Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::DeleteVideo, request, &reply);
    if (perhaps_deleted && status.error_code() == grpc::StatusCode::NOT_FOUND) return grpc::Status::OK;
    perhaps_deleted = perhaps_deleted || MayHaveArrived(connection, status);
    return status;
  });
}

ExitStatus Delete(const CommandLine& line) {
  if (line.Has("force") && line.Has("cancel")) {
    return ReportLocalError(absl::InvalidArgumentError("delete: give either --force, which waits, or --cancel"));
  }
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto patience = Patience::Of(line);
  if (!patience.ok()) return ReportLocalError(patience.status());
  v1::DeleteVideoRequest request;
  request.set_cancel(line.Has("cancel"));
  grpc::Status status = Find(*connection, line.operands()[0], *patience, request.mutable_id());
  if (status.ok() && line.Has("force")) {
    v1::Video video;
    status = CancelWhenServing(*connection, request.id(), *patience, &video);
    if (status.ok()) status = AwaitEnd(*connection, *patience, &video);
  }
  if (status.ok()) status = DeleteJob(*connection, request, *patience);
  if (!status.ok()) {
    const ExitStatus exit_status = ReportError(status, line.Has("json"));
    const bool runs = status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
    if (runs && !line.Has("json"))
      std::fprintf(stderr, "  use `kinora delete --force` or `--cancel` to cancel it first\n");
    return exit_status;
  }
  PrintLine(line.Has("json") ? "{}" : absl::StrCat(request.cancel() ? "deleting " : "deleted ", request.id()));
  return kSuccess;
}

}  // namespace

absl::Span<const Command> EndingCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"cancel", "[ID]", "cancel a job; does nothing if the job has ended", 1,
       WithServingWait({{"all", "", "cancel every queued or running job; give it instead of ID"},
                        {"wait", "", "wait until the run has stopped, at its next step"}}),
       Cancel},
      {"delete", "ID", "delete a job's record and files", 1,
       WithServingWait({{"force", "", "cancel the job first and wait until it has ended"},
                        {"cancel", "", "cancel the job first; the server deletes it when it has ended"}}),
       Delete},
  };
  return *kCommands;
}

}  // namespace kinora
