#include "server/tools/serving_wait.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/tools/server_address.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"reconnect", "DURATION", "how long a server may stay away, and its model load at the start; absent: 1m"},
    {"no-wait", "", "a server that is not there, or whose model still loads, is an error at once"},
};

bool HasRetryInfo(const grpc::Status& status) {
  google::rpc::Status details;
  return details.ParseFromString(status.error_details()) &&
         std::any_of(details.details().begin(), details.details().end(),
                     [](const google::protobuf::Any& any) { return any.Is<google::rpc::RetryInfo>(); });
}

// "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:8470: Connection refused" -> its end.
std::string Cause(const std::string& message) {
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace

absl::Span<const FlagSpec> ServingWaitFlags() { return kFlags; }

absl::StatusOr<absl::Duration> ReconnectOf(const CommandLine& line) {
  KINORA_ASSIGN_OR_RETURN(const auto reconnect, line.GetDuration("reconnect"));
  return reconnect.value_or(absl::Minutes(1));
}

absl::StatusOr<absl::Duration> ServingWaitOf(const CommandLine& line) {
  KINORA_ASSIGN_OR_RETURN(const absl::Duration reconnect, ReconnectOf(line));
  return line.Has("no-wait") ? absl::ZeroDuration() : reconnect;
}

std::optional<absl::Duration> ServingWait::PauseAfter(const grpc::Status& status) {
  if (!IsUnreachable(status)) return std::nullopt;
  if (!status.error_details().empty()) {  // a server answered: it knows whether waiting helps
    return HasRetryInfo(status) ? PauseFor(status.error_message()) : std::nullopt;
  }
  if (connection_.channel()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) return std::nullopt;
  if (IsMistakenAddress(status.error_message())) return std::nullopt;
  return Pause("unreachable", Cause(status.error_message()));  // one line, however the attempts fail
}

std::optional<absl::Duration> ServingWait::Pause(const std::string& reason, const std::string& text) {
  const absl::Time now = absl::Now();
  deadline_ = std::min(deadline_, now + limit_);
  if (now >= deadline_) return std::nullopt;
  if (reason != noted_) {
    note_(absl::StrCat("waiting for the server at ", connection_.address(), ", ", absl::FormatDuration(limit_),
                       " at most: ", text));
  }
  noted_ = reason;
  const absl::Duration pause = std::min(pause_, deadline_ - now);
  pause_ = std::min(pause_ * 2, absl::Seconds(1));
  return pause;
}

grpc::Status CallWhenServing(const Connection& connection, absl::Duration limit, absl::FunctionRef<grpc::Status()> call,
                             absl::FunctionRef<std::string()> lack) {
  ServingWait wait(connection, limit, [](absl::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
  while (true) {
    grpc::Status status = call();
    const std::string lacks = status.ok() ? lack() : "";
    const auto pause = lacks.empty() ? wait.PauseAfter(status) : wait.PauseFor(lacks);
    if (!pause) return status;
    absl::SleepFor(*pause);
    connection.ForgetFailures();
  }
}

}  // namespace kinora
