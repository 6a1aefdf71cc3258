#include "server/client/serving_wait.h"

#include <algorithm>
#include <cstdio>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/api_call.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/net/grpc_status.h"
#include "server/net/server_address.h"

namespace kinora {
namespace {

// Bounds for RetryInfo.
constexpr absl::Duration kShortestPause = absl::Milliseconds(100), kLongestPause = absl::Minutes(1);

constexpr FlagSpec kFlags[] = {
    {"reconnect", "DURATION", "how long to wait for an unreachable, loading or full server; default: 1m"},
    {"no-wait", "",
     "fail at once if the server is unreachable, has no group with the model loaded, or has a full queue"},
};

std::optional<absl::Duration> RetryDelay(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::RetryInfo info;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& any : details.details()) {
    if (any.UnpackTo(&info)) return FromProto(info.retry_delay());
  }
  return std::nullopt;
}

}  // namespace

absl::Span<const FlagSpec> ServingWaitFlags() { return kFlags; }

std::vector<FlagSpec> WithServingWait(std::vector<FlagSpec> flags) {
  flags.insert(flags.end(), std::begin(kFlags), std::end(kFlags));
  return flags;
}

absl::StatusOr<absl::Duration> ReconnectOf(const CommandLine& line) {
  KINORA_ASSIGN_OR_RETURN(const auto reconnect, line.GetDuration("reconnect"));
  return reconnect.value_or(absl::Minutes(1));
}

absl::StatusOr<absl::Duration> ServingWaitOf(const CommandLine& line) {
  KINORA_ASSIGN_OR_RETURN(const absl::Duration reconnect, ReconnectOf(line));
  return line.Has("no-wait") ? absl::ZeroDuration() : reconnect;
}

bool IsQueueFull(const grpc::Status& status) { return ErrorReason(FromGrpcStatus(status)) == "QUEUE_FULL"; }

absl::Duration QueuePause(const grpc::Status& full, absl::Duration otherwise) {
  const absl::Duration said = RetryDelay(full).value_or(otherwise);
  return std::clamp(said, kShortestPause, kLongestPause) * absl::Uniform(absl::BitGen(), 0.75, 1.25);
}

bool MayPass(const grpc::Status& status) { return status.error_details().empty() || RetryDelay(status).has_value(); }

bool MayHaveArrived(const Connection& connection, const grpc::Status& status) {
  return IsUnreachable(status) && status.error_details().empty() &&
         connection.channel()->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_TRANSIENT_FAILURE;
}

std::optional<absl::Duration> ServingWait::PauseAfter(const grpc::Status& status) {
  if (IsQueueFull(status)) return Pause("full", status.error_message(), QueuePause(status, pause_.next()));
  if (!IsUnreachable(status) || !MayPass(status)) return std::nullopt;
  if (!status.error_details().empty()) return PauseFor(status.error_message());
  if (connection_.channel()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) return std::nullopt;
  if (IsMistakenAddress(status.error_message())) return std::nullopt;
  const std::string why = ExplainUnreachable(status.error_message());
  return Pause("unreachable",  // one line, even if the attempts fail differently
               std::string(absl::StripPrefix(why, absl::StrCat(connection_.address(), ": "))));
}

std::optional<absl::Duration> ServingWait::Pause(const std::string& reason, const std::string& text,
                                                 std::optional<absl::Duration> pause) {
  const absl::Time now = steady_.Now();
  deadline_ = std::min(deadline_, now + limit_);
  if (now >= deadline_) return std::nullopt;
  if (reason != noted_) {
    note_(absl::StrCat("waiting for the server at ", connection_.address(), ", ", absl::FormatDuration(limit_),
                       " at most: ", text));
  }
  noted_ = reason;
  const absl::Duration grown = pause_.Next();
  return std::min(pause.value_or(grown), deadline_ - now);
}

// Ignores other errors; the server returns them when the job is created.
grpc::Status AskWhetherServed(const Connection& connection, const v1::CreateVideoRequest& request) {
  v1::Estimate estimate;
  grpc::Status status =
      Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::EstimateVideo, request, &estimate);
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ? status : grpc::Status::OK;
}

grpc::Status CallWhenServing(const Connection& connection, absl::Duration limit, Halt& halt,
                             absl::FunctionRef<grpc::Status()> call, absl::FunctionRef<std::string()> lack) {
  ServingWait wait(connection, limit, [](absl::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
  while (true) {
    grpc::Status status = call();
    const std::string lacks = status.ok() ? lack() : "";
    const auto pause = lacks.empty() ? wait.PauseAfter(status) : wait.PauseFor(lacks);
    if (!pause) return status;
    if (!halt.Pause(*pause)) return {grpc::StatusCode::CANCELLED, "left"};
    connection.ForgetFailures();
  }
}

}  // namespace kinora
