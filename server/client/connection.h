// The connection from the client to a server (address, TLS, token), and the exit status for a call's status.
#ifndef KINORA_SERVER_CLIENT_CONNECTION_H_
#define KINORA_SERVER_CLIENT_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"

namespace kinora {

// Exit statuses of `kinora`, as --help lists them.
enum ExitStatus : int {
  kSuccess = 0,
  kError = 1,        // anything else: a file that cannot be written, an internal error of the server
  kRefused = 2,      // an invalid flag, or the server rejected the call; nothing was started
  kFailed = 3,       // the job ended FAILED
  kCancelled = 4,    // the job ended CANCELLED
  kUnreachable = 5,  // no server, or not serving; a started job continues and can be watched
};

absl::Span<const FlagSpec> ConnectionFlags();

class Connection {
 public:
  // `address_flag` and the variable `environment` give the server, for instance "server" and KINORA_SERVER. Does not
  // connect yet. NotFound or InvalidArgument: a flag, or a file of --tls-ca or --token-file.
  static absl::StatusOr<Connection> Open(const CommandLine& line, absl::string_view address_flag,
                                         absl::string_view environment, absl::string_view default_address);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const std::string& address() const { return address_; }
  // Contexts with the token; unary calls also have --timeout as their deadline.
  std::unique_ptr<grpc::ClientContext> UnaryContext() const;
  std::unique_ptr<grpc::ClientContext> StreamContext() const;
  // Makes the next call connect at once; callers have their own pauses.
  void ForgetFailures() const { grpc::experimental::ChannelResetConnectionBackoff(channel_.get()); }

 private:
  std::string address_;
  std::string token_;
  absl::Duration timeout_;
  std::shared_ptr<grpc::Channel> channel_;
};

ExitStatus ExitStatusOf(const grpc::Status& status);
bool IsUnreachable(const grpc::Status& status);

// Prints the error and its google.rpc details to stderr, each violation on a separate line; with `json`, one {"error":
// google.rpc.Status} line to stdout. Returns ExitStatusOf(status).
ExitStatus ReportError(const grpc::Status& status, bool json);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_CONNECTION_H_
