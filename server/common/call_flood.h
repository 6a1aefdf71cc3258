// Tells the connections that begin calls and drop them, over and over, from those that wait for their answers. Each
// such call costs its sender 25 bytes and the server a call's memory and time, and HTTP/2 does not count it as open.
//
// What counts is a connection's calls begun less those answered, as gRPC itself counts them (channelz): it may grow by
// `burst` at once and by 100 per second. Calls that are open count until they are answered, so `burst` must be well
// above the calls that may be open at once.
//
// Of one thread.
#ifndef KINORA_SERVER_COMMON_CALL_FLOOD_H_
#define KINORA_SERVER_COMMON_CALL_FLOOD_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "server/common/connection_acceptor.h"

namespace kinora {

class CallFlood {
 public:
  explicit CallFlood(int burst) : burst_(burst) {}

  // Whether the connection, of a gRPC server in this process, is to be cut. Looks at gRPC's numbers only after 4 KiB
  // have come on the connection since the last look.
  bool Overdone(const ConnectionAcceptor::Connection& connection);
  void Forget(uint64_t connection) { connections_.erase(connection); }

 private:
  using Instant = std::chrono::steady_clock::time_point;
  struct State {
    intptr_t socket = 0;  // gRPC's number for it; 0: not known yet
    uint64_t bytes = 0;
    int64_t unanswered = 0;
    double level = 0;
    Instant at;
  };
  void FindSocket(const std::string& peer, State& state);
  void ListSockets();

  const int burst_;
  std::map<uint64_t, State> connections_;
  std::map<std::string, intptr_t> sockets_;  // by gRPC's name of the peer
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_CALL_FLOOD_H_
