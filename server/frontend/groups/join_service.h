// The servers that workers join (worker.proto). They turn each stream into a RankLink and its messages into calls of
// the Dispatcher. They listen on separate addresses and serve nothing else, so that no client of the public API can
// pose as a worker: a Unix socket for processes of this user, and a port for ranks started elsewhere, which must show a
// token or a certificate before any message is read.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/frontend/groups/join_rules.h"

namespace kinora {

class Dispatcher;
class GroupHomes;
struct FrontendMetrics;

struct JoinServerOptions {
  std::string field;    // field of the configuration, for errors
  std::string address;  // "unix:PATH" (in a directory that the caller created with mode 0700), "host:port"
  Entrance entrance = Entrance::kLocalSocket;
  bool local_only = true;
  std::shared_ptr<grpc::ServerCredentials> credentials{};  // null: plain text
  bool wants_certificate = false;                          // verified by `credentials`
  // Checks the metadata's "authorization"; empty: no token is required.
  std::function<absl::Status(std::string_view)> check_token{};
  GroupHomes* homes = nullptr;  // of groups that may join at other frontends; null: there are none. Not owned
  Clock* steady = &Clock::Steady();
};

class JoinServer {
 public:
  static constexpr int kMaxConnections = 256;                      // one per rank, and a few that are closing
  static constexpr absl::Duration kHelloTime = absl::Seconds(10);  // from the start of a call to its Hello

  // Fails as ListeningSockets::Bind. `dispatcher` and `metrics` must outlive the server.
  static absl::StatusOr<std::unique_ptr<JoinServer>> Start(Dispatcher& dispatcher, FrontendMetrics& metrics,
                                                           JoinServerOptions options);
  virtual ~JoinServer() = default;  // ends all streams
  // Accepts no more ranks, and waits until those that were told to leave have ended their streams; cuts the others
  // after `grace`. Optional, once.
  virtual void Shutdown(absl::Duration grace) = 0;
  virtual int port() const = 0;  // 0 on a Unix socket
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_
