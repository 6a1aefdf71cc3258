// The servers that workers join (worker.proto): turn each stream into a RankLink and its messages into calls of the
// Dispatcher. They listen on addresses of their own and serve nothing else, so that no client of the public API can
// pose as a worker: a Unix socket for processes of this user, and a port for ranks that are started elsewhere, which
// show a token or a certificate before anything that they say is read.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/frontend/groups/join_rules.h"

namespace kinora {

class Dispatcher;
struct FrontendMetrics;

struct JoinServerOptions {
  std::string field;    // of the configuration, for messages
  std::string address;  // "unix:PATH" (the caller made its directory, mode 0700), "host:port"
  Entrance entrance = Entrance::kLocalSocket;
  bool local_only = true;
  std::shared_ptr<grpc::ServerCredentials> credentials{};  // null: plain text
  bool wants_certificate = false;                          // one that `credentials` have verified
  // Of the metadata's "authorization"; empty: nobody is asked.
  std::function<absl::Status(std::string_view)> check_token{};
};

class JoinServer {
 public:
  static constexpr int kMaxConnections = 256;  // one per rank, and a few that are about to go

  // Errors: those of ListeningSockets::Bind. Neither is owned.
  static absl::StatusOr<std::unique_ptr<JoinServer>> Start(Dispatcher& dispatcher, FrontendMetrics& metrics,
                                                           JoinServerOptions options);
  virtual ~JoinServer() = default;  // ends all streams; the dispatcher must still live
  virtual int port() const = 0;     // 0 on a Unix socket
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_
