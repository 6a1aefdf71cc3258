// The address of a server as people write it.
#ifndef KINORA_SERVER_TOOLS_SERVER_ADDRESS_H_
#define KINORA_SERVER_TOOLS_SERVER_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kinora {

struct ServerAddress {
  std::string target;  // for gRPC: host:port, [address]:port or unix:PATH
  bool tls = false;    // it said https://
};

// "host:port", "unix:PATH", or shorter: a host without a port gets `default_port`, a port without a host this machine,
// ::1 its brackets; http:// and https:// may stand before it and / after it. Other targets of gRPC ("dns:…", "ipv4:…")
// stay as they are. InvalidArgument says what is wrong: no address, a path, a port that is none, or one that is
// missing where default_port is 0.
absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text, int default_port);

// What gRPC says of a server that it cannot reach, in words that name the address and the likely mistake; as it was
// where there is nothing better to say.
std::string ExplainUnreachable(const std::string& message);
// Whether that is a mistake in the address or its security, which waiting does not mend.
bool IsMistakenAddress(const std::string& message);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_SERVER_ADDRESS_H_
