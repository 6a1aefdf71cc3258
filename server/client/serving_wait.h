// Retries of a command's first call while the server is unreachable, full, or still loading its model.
#ifndef KINORA_SERVER_CLIENT_SERVING_WAIT_H_
#define KINORA_SERVER_CLIENT_SERVING_WAIT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/command_line.h"
#include "engine/base/growing_pause.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/client/connection.h"
#include "server/client/halt.h"

namespace kinora {

absl::Span<const FlagSpec> ServingWaitFlags();  // --reconnect, --no-wait
std::vector<FlagSpec> WithServingWait(std::vector<FlagSpec> flags);

// ReconnectOf: --reconnect, by default one minute. ServingWaitOf: likewise, but 0 with --no-wait. InvalidArgument names
// the flag.
absl::StatusOr<absl::Duration> ReconnectOf(const CommandLine& line);
absl::StatusOr<absl::Duration> ServingWaitOf(const CommandLine& line);

class ServingWait {  // one thread at a time
 public:
  // Waits for at most `limit` from the first pause on; zero: not at all. `note` gets one line with the reason, and
  // another if the reason changes.
  ServingWait(const Connection& connection, absl::Duration limit, std::function<void(absl::string_view)> note,
              const Clock& steady = Clock::Steady())
      : connection_(connection), limit_(limit), note_(std::move(note)), steady_(steady) {}

  // Returns the pause before retrying the call that returned `status`: up to 1 s, or for a full queue its RetryInfo,
  // with jitter so that waiting clients do not return together. Returns nothing if `status` is final: it is neither
  // UNAVAILABLE without a connection, UNAVAILABLE with RetryInfo, nor QUEUE_FULL, or the time is over.
  std::optional<absl::Duration> PauseAfter(const grpc::Status& status);
  // The same for a successful but incomplete answer: "no worker has described a model yet".
  std::optional<absl::Duration> PauseFor(const std::string& lack) { return Pause(lack, lack); }

 private:
  // Notes `text` if `reason` differs from the last one. Without `pause`, uses the next growing pause.
  std::optional<absl::Duration> Pause(const std::string& reason, const std::string& text,
                                      std::optional<absl::Duration> pause = std::nullopt);

  const Connection& connection_;  // not owned
  const absl::Duration limit_;
  const std::function<void(absl::string_view)> note_;
  const Clock& steady_;
  absl::Time deadline_ = absl::InfiniteFuture();  // set at the first pause
  GrowingPause pause_{absl::Milliseconds(100), absl::Seconds(1)};
  std::string noted_;  // the last reason
};

// Repeats the call until its status is final and `lack` returns "". Returns CANCELLED once the halt is raised. Notes go
// to standard error.
grpc::Status CallWhenServing(
    const Connection& connection, absl::Duration limit, Halt& halt, absl::FunctionRef<grpc::Status()> call,
    absl::FunctionRef<std::string()> lack = [] { return std::string(); });

// For a job that should not wait: UNAVAILABLE, with the server's reason, if no worker group serves its model.
grpc::Status AskWhetherServed(const Connection& connection, const v1::CreateVideoRequest& request);

// Whether the server's queue is full.
bool IsQueueFull(const grpc::Status& status);
// Returns the pause before retrying a full queue: its RetryInfo, or `otherwise`, ± 25 % at random.
absl::Duration QueuePause(const grpc::Status& full, absl::Duration otherwise);

// Whether an UNAVAILABLE may be temporary: it has no details (gRPC's own), or the server's RetryInfo.
bool MayPass(const grpc::Status& status);
// Whether a call that ended without an answer may have been executed by the server.
bool MayHaveArrived(const Connection& connection, const grpc::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_SERVING_WAIT_H_
