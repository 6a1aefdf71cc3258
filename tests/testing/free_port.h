// A port for a server that must know its own before it starts.
#ifndef KINORA_TESTS_TESTING_FREE_PORT_H_
#define KINORA_TESTS_TESTING_FREE_PORT_H_

#include "engine/base/check.h"
#include "server/net/listen_address.h"

namespace kinora {

// Returns a port of 127.0.0.1 that was free a moment ago.
inline int FreePort() {
  auto sockets = ListeningSockets::Bind("port", "127.0.0.1:0", /*local_only=*/true);
  KINORA_CHECK(sockets.ok()) << sockets.status();
  return sockets->port();
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FREE_PORT_H_
