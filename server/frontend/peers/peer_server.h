// The server that other frontends call: peer_service.h at FrontendConfig.peer_address. It serves nothing else, and
// reads no byte of a message before the caller has shown a token.
#ifndef KINORA_SERVER_FRONTEND_PEERS_PEER_SERVER_H_
#define KINORA_SERVER_FRONTEND_PEERS_PEER_SERVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"
#include "server/frontend/api/service_context.h"
#include "server/frontend/peers/peer_service.h"

namespace kinora {

class PeerServer {
 public:
  static constexpr int kMaxConnections = 64;

  // Errors name the field: of a file, or as ListeningSockets::Bind. metrics and gauges must outlive the server.
  static absl::StatusOr<std::unique_ptr<PeerServer>> Start(const v1::FrontendConfig& config, JobMetrics& metrics,
                                                           FrontendMetrics& gauges, PeerAnswers answers);
  virtual ~PeerServer() = default;  // Shutdown(zero)
  virtual void Shutdown(absl::Duration grace) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_PEERS_PEER_SERVER_H_
