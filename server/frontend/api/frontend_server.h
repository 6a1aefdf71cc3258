// The gRPC servers of the frontend: the public API with health and reflection, Admin on a separate address, and the
// public API once more on the socket of the frontend's own gateway, if it starts one.
#ifndef KINORA_SERVER_FRONTEND_API_FRONTEND_SERVER_H_
#define KINORA_SERVER_FRONTEND_API_FRONTEND_SERVER_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"
#include "server/frontend/api/video_service.h"

namespace kinora {

class FrontendServer {
 public:
  static constexpr int kMaxAdminConnections = 32;
  static constexpr int kMaxGatewayConnections = 64;  // a gateway opens one for each hundred streams

  // Listens and serves. InvalidArgument: an address or a file in `tls` is invalid. Otherwise fails as
  // ListeningSockets::Bind.
  static absl::StatusOr<std::unique_ptr<FrontendServer>> Start(const v1::FrontendConfig& config,
                                                               ServiceContext& context, GroupControl control,
                                                               TokenSet admin_tokens);
  virtual ~FrontendServer() = default;  // Shutdown(zero) if it was not called

  // grpc.health.v1: "" (accepting), "kinora.v1.VideoGeneration" (a group is ready), "kinora.group.<id>".
  virtual void SetAccepting(bool accepting) = 0;
  virtual void SetReady(bool ready, const std::map<std::string, bool>& groups) = 0;

  // Returns an error if the public API does not answer its own calls (SelfCheck).
  virtual absl::Status Live() const = 0;

  // Accepts no new calls and cuts open ones, watches included, after `grace`. Blocks until all have ended.
  virtual void Shutdown(absl::Duration grace) = 0;
  virtual int port() const = 0;  // of the public API; 0 on a Unix socket
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_FRONTEND_SERVER_H_
