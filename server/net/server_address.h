// Parses server addresses and explains connection errors.
#ifndef KINORA_SERVER_NET_SERVER_ADDRESS_H_
#define KINORA_SERVER_NET_SERVER_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kinora {

struct ServerAddress {
  std::string target;  // for gRPC: host:port, [address]:port or unix:PATH
  bool tls = false;    // https:// was given
  bool plain = false;  // http:// or a Unix socket: $KINORA_TLS_CA does not enable TLS
};

// Accepts "host:port" and "unix:PATH". A missing port becomes `default_port`, a missing host 127.0.0.1; ::1 gets
// brackets; http:// or https:// may precede, and / may follow. Other gRPC targets ("dns:…", "ipv4:…") are kept.
// InvalidArgument: no address, a path, an invalid port, or a missing port with default_port 0.
absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text, int default_port);

// Rewords gRPC's message about an unreachable server to name the address and the likely mistake. Unknown messages are
// returned unchanged.
std::string ExplainUnreachable(const std::string& message);
// Whether the cause is a mistake in the address or its TLS settings, so that waiting does not help.
bool IsMistakenAddress(const std::string& message);

}  // namespace kinora

#endif  // KINORA_SERVER_NET_SERVER_ADDRESS_H_
