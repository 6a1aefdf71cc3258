#include "server/tools/serving_wait.h"

#include <algorithm>
#include <cstdio>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/common/grpc_status.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/tools/server_address.h"

namespace kinora {
namespace {

// Whatever a server says.
constexpr absl::Duration kShortestPause = absl::Milliseconds(100), kLongestPause = absl::Minutes(1);

constexpr FlagSpec kFlags[] = {
    {"reconnect", "DURATION", "how long a server may stay away, its model load or its queue be full; absent: 1m"},
    {"no-wait", "", "a server that is not there, whose model still loads or whose queue is full is an error at once"},
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
  if (IsQueueFull(status)) return Pause("full", status.error_message(), QueuePause(status, pause_));
  if (!IsUnreachable(status) || !MayPass(status)) return std::nullopt;
  if (!status.error_details().empty()) return PauseFor(status.error_message());
  if (connection_.channel()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) return std::nullopt;
  if (IsMistakenAddress(status.error_message())) return std::nullopt;
  const std::string why = ExplainUnreachable(status.error_message());
  return Pause("unreachable",  // one line, however the attempts fail
               std::string(absl::StripPrefix(why, absl::StrCat(connection_.address(), ": "))));
}

std::optional<absl::Duration> ServingWait::Pause(const std::string& reason, const std::string& text,
                                                 std::optional<absl::Duration> pause) {
  const absl::Time now = absl::Now();
  deadline_ = std::min(deadline_, now + limit_);
  if (now >= deadline_) return std::nullopt;
  if (reason != noted_) {
    note_(absl::StrCat("waiting for the server at ", connection_.address(), ", ", absl::FormatDuration(limit_),
                       " at most: ", text));
  }
  noted_ = reason;
  const absl::Duration next = std::min(pause.value_or(pause_), deadline_ - now);
  pause_ = std::min(pause_ * 2, absl::Seconds(1));
  return next;
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
