// Which addresses lie in the public internet.
#ifndef KINORA_SERVER_GATEWAY_PUBLIC_ADDRESS_H_
#define KINORA_SERVER_GATEWAY_PUBLIC_ADDRESS_H_

#include <sys/socket.h>

namespace kinora {

// False for addresses that only hosts of the same machine, link or network reach (loopback, link-local, private, shared
// with a provider), for multicast, documentation and reserved ones, and for other families than IPv4 and IPv6. An IPv6
// address that contains an IPv4 one (::ffff:0:0/96, 64:ff9b::/96) counts as that; tunnels (6to4, Teredo) are not
// public.
bool IsPublicAddress(const sockaddr& address);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_PUBLIC_ADDRESS_H_
