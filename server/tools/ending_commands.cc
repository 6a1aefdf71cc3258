// Commands that end jobs: cancel, delete.
#include <google/protobuf/empty.pb.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/api_call.h"
#include "server/tools/commands.h"
#include "server/tools/job_cancel.h"
#include "server/tools/job_lookup.h"
#include "server/tools/job_text.h"
#include "server/tools/printing.h"
#include "server/tools/serving_wait.h"
#include "server/tools/watcher.h"

namespace kinora {
namespace {

// A server that is restarted is waited for: a job that is not cancelled meanwhile runs again.
struct Patience {
  absl::Duration serving_wait, reconnect;

  static absl::StatusOr<Patience> Of(const CommandLine& line) {
    Patience patience;
    KINORA_ASSIGN_OR_RETURN(patience.serving_wait, ServingWaitOf(line));
    KINORA_ASSIGN_OR_RETURN(patience.reconnect, ReconnectOf(line));
    return patience;
  }
};

// These act on what was found first: the beginning of an id may be another job's once the job has gone.
grpc::Status Find(const Connection& connection, const std::string& typed, const Patience& patience, std::string* id) {
  Halt never;  // a signal ends these commands
  return CallWhenServing(connection, patience.serving_wait, never,
                         [&] { return FindJob(connection, typed, id, never); });
}

grpc::Status CancelWhenServing(const Connection& connection, const std::string& id, const Patience& patience,
                               v1::Video* video) {
  Halt never;
  return CallWhenServing(connection, patience.serving_wait, never,
                         [&] { return CancelJob(connection, id, video, never); });
}

// Until the job has ended, whatever becomes of the connection meanwhile.
grpc::Status AwaitEnd(const Connection& connection, const Patience& patience, v1::Video* video) {
  if (IsTerminal(video->state())) return grpc::Status::OK;
  ProgressDisplay display(STDERR_FILENO, /*quiet=*/true);
  WatchOptions options;
  options.reconnect = patience.reconnect;
  options.serving_wait = patience.serving_wait;  // it may go between the cancel and the first event
  Watcher watcher(connection, display, std::move(options));
  return watcher.Watch(std::string(video->id()), /*after_sequence=*/0, video);
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

ExitStatus CancelAll(const Connection& connection, const Patience& patience, const CommandLine& line) {
  Halt never;
  std::vector<std::string> ids;
  const grpc::Status status =
      CallWhenServing(connection, patience.serving_wait, never, [&] { return ListUnended(connection, &ids); });
  if (!status.ok()) return ReportError(status, line.Has("json"));
  if (ids.empty()) std::fprintf(stderr, "no job waits or runs\n");
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

// A job that is not there after an attempt that may have arrived has been deleted by it.
grpc::Status DeleteJob(const Connection& connection, const std::string& id, const Patience& patience) {
  Halt never;
  google::protobuf::Empty reply;
  v1::DeleteVideoRequest request;
  request.set_id(id);
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
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto patience = Patience::Of(line);
  if (!patience.ok()) return ReportLocalError(patience.status());
  std::string id;
  grpc::Status status = Find(*connection, line.operands()[0], *patience, &id);
  if (status.ok() && line.Has("force")) {
    v1::Video video;
    status = CancelWhenServing(*connection, id, *patience, &video);
    if (status.ok()) status = AwaitEnd(*connection, *patience, &video);
  }
  if (status.ok()) status = DeleteJob(*connection, id, *patience);
  if (!status.ok()) {
    const ExitStatus exit_status = ReportError(status, line.Has("json"));
    const bool runs = status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
    if (runs && !line.Has("json")) std::fprintf(stderr, "  `kinora delete --force` cancels it first\n");
    return exit_status;
  }
  PrintLine(line.Has("json") ? "{}" : absl::StrCat("deleted ", id));
  return kSuccess;
}

}  // namespace

absl::Span<const Command> EndingCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"cancel", "[ID]", "cancels a job; one that has ended stays as it is", 1,
       WithServingWait({{"all", "", "every job that waits or runs, in the place of ID"},
                        {"wait", "", "until the run has ended, which is at its next step"}}),
       Cancel},
      {"delete", "ID", "deletes a job's record and files", 1,
       WithServingWait({{"force", "", "cancels the job first and waits for its end"}}), Delete},
  };
  return *kCommands;
}

}  // namespace kinora
