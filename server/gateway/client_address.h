// The address of a client, for limits per client.
//
// Behind proxies every connection comes from a proxy. Each appends the address of its own client to X-Forwarded-For;
// whatever stands to the left of the addresses that trusted proxies added, the client may have written itself.
#ifndef KINORA_SERVER_GATEWAY_CLIENT_ADDRESS_H_
#define KINORA_SERVER_GATEWAY_CLIENT_ADDRESS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gateway/http_message.h"
#include "server/net/listen_address.h"

namespace kinora {

// Returns the address without its port: "10.0.0.1", "[2001:db8:1:2::]", "unix:". A client owns at least 64 bits of IPv6
// addresses, so the rest is zero.
std::string ClientAddress(const SocketAddress& peer);

class TrustedProxies {
 public:
  // `texts`: addresses and ranges, "10.1.2.3", "10.0.0.0/8", "2001:db8::/32". InvalidArgument quotes one that is
  // neither.
  static absl::StatusOr<TrustedProxies> Parse(const std::vector<std::string>& texts);

  bool Trusts(const SocketAddress& peer) const;
  // Returns the client, as ClientAddress: the peer or, if that is a trusted proxy, the right-most address in
  // X-Forwarded-For that is not one's. If something else than an address precedes it, or nothing does, the client is
  // the last proxy that the field reached.
  std::string ClientOf(const SocketAddress& peer, const std::vector<HttpField>& fields) const;

 private:
  using Bytes = std::array<uint8_t, 16>;  // IPv4 addresses are mapped: ::ffff:10.0.0.1
  struct Range {
    Bytes first;
    int bits;
  };

  bool Contains(const Bytes& address) const;

  std::vector<Range> ranges_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_CLIENT_ADDRESS_H_
