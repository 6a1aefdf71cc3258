// kinora-gateway: the HTTP API in front of frontends. It keeps no state: any number of them may run.
#ifndef KINORA_SERVER_GATEWAY_GATEWAY_H_
#define KINORA_SERVER_GATEWAY_GATEWAY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/gateway/gateway_flags.h"

namespace kinora {

class Gateway {
 public:
  // Listens; does not wait for a frontend. InvalidArgument: a flag, or a file that one names. Otherwise as
  // ListeningSockets::Bind.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(const GatewayFlags& flags);
  virtual ~Gateway() = default;  // as Drain without a grace

  // Stops listening, and lets requests end for flags.drain_grace.
  virtual void Drain() = 0;
  virtual int port() const = 0;  // 0 on a Unix socket
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_GATEWAY_H_
