// The patience of a command at its start: a server that is not there yet, or whose model still loads, is asked again.
#ifndef KINORA_SERVER_TOOLS_SERVING_WAIT_H_
#define KINORA_SERVER_TOOLS_SERVING_WAIT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "server/tools/connection.h"
#include "server/tools/halt.h"

namespace kinora {

absl::Span<const FlagSpec> ServingWaitFlags();  // --reconnect, --no-wait
std::vector<FlagSpec> WithServingWait(std::vector<FlagSpec> flags);

// What they say: --reconnect, absent one minute; 0 with --no-wait. InvalidArgument names the flag.
absl::StatusOr<absl::Duration> ReconnectOf(const CommandLine& line);
absl::StatusOr<absl::Duration> ServingWaitOf(const CommandLine& line);

class ServingWait {  // one thread at a time
 public:
  // Waits for `limit` in all, from the first pause on; zero: not at all. `note` gets one line that says for what, and
  // another only if that changes.
  ServingWait(const Connection& connection, absl::Duration limit, std::function<void(absl::string_view)> note)
      : connection_(connection), limit_(limit), note_(std::move(note)) {}

  // How long to pause before the call that got `status` is made again: up to a second, for a full queue what its
  // RetryInfo says, a little less or more, so that those who wait do not come back together. Nothing: the status is the
  // answer, because it is no such case (UNAVAILABLE without a connection or with a RetryInfo, QUEUE_FULL) or the time
  // is over.
  std::optional<absl::Duration> PauseAfter(const grpc::Status& status);
  // The same for an answer that lacks something: "no worker has described a model yet".
  std::optional<absl::Duration> PauseFor(const std::string& lack) { return Pause(lack, lack); }

 private:
  // `text` is said if the last line was of another `reason`. `pause`: nothing, the next of those that grow.
  std::optional<absl::Duration> Pause(const std::string& reason, const std::string& text,
                                      std::optional<absl::Duration> pause = std::nullopt);

  const Connection& connection_;  // not owned
  const absl::Duration limit_;
  const std::function<void(absl::string_view)> note_;
  absl::Time deadline_ = absl::InfiniteFuture();  // from the first pause on
  absl::Duration pause_ = absl::Milliseconds(100);
  std::string noted_;  // the last reason
};

// Makes the call until its status is an answer, and one that lacks nothing; CANCELLED once the halt is raised. Notes go
// to standard error.
grpc::Status CallWhenServing(
    const Connection& connection, absl::Duration limit, Halt& halt, absl::FunctionRef<grpc::Status()> call,
    absl::FunctionRef<std::string()> lack = [] { return std::string(); });

// As many jobs wait as the server lets wait.
bool IsQueueFull(const grpc::Status& status);
// Of one that is full: what its RetryInfo says, else `otherwise`, a quarter less or more at random.
absl::Duration QueuePause(const grpc::Status& full, absl::Duration otherwise);

// Of an UNAVAILABLE: gRPC's own says nothing of why; a server's says when to try again, or that this does not help.
bool MayPass(const grpc::Status& status);
// The call ended without a word of the server's, which may have done what it was asked to.
bool MayHaveArrived(const Connection& connection, const grpc::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_SERVING_WAIT_H_
