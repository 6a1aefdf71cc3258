// Detects connections that begin calls and drop them, over and over, instead of waiting for the answers. Each such call
// costs its sender 25 bytes and the server a call's memory and time, and HTTP/2 does not count it as open.
//
// A connection's level is the number of calls begun minus those answered, as gRPC counts them (channelz). It may grow
// by `burst` at once and by 100 per second. Open calls count until they are answered, so `burst` must be well above the
// number of calls that may be open at once.
//
// Used by one thread.
#ifndef KINORA_SERVER_NET_CALL_FLOOD_H_
#define KINORA_SERVER_NET_CALL_FLOOD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/connection_acceptor.h"

namespace kinora {

class CallFlood {
 public:
  explicit CallFlood(int burst, const Clock& steady = Clock::Steady()) : burst_(burst), steady_(steady) {}

  // Returns whether to cut the connection, which must belong to a gRPC server in this process. Reads gRPC's counts only
  // after 4 KiB have arrived on the connection since it last did.
  bool Overdone(const ConnectionAcceptor::Connection& connection);
  void Forget(uint64_t connection) { connections_.erase(connection); }

 private:
  struct State {
    intptr_t socket = 0;  // gRPC's id of the socket; 0: not known yet
    uint64_t bytes = 0;
    int64_t unanswered = 0;
    double level = 0;
    absl::Time at;
  };
  void FindSocket(const std::string& peer, State& state);
  void ListSockets();

  const int burst_;
  const Clock& steady_;
  std::map<uint64_t, State> connections_;
  std::map<std::string, intptr_t> sockets_;  // ids by gRPC's name of the peer
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_CALL_FLOOD_H_
