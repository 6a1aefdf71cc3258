// The server that workers join (worker.proto): turns each stream into a RankLink and its messages into calls of the
// Dispatcher. It listens on an address of its own, so that no client of the public API can pose as a worker.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace kinora {

class Dispatcher;

class JoinServer {
 public:
  // "unix:PATH" (the caller made its directory, mode 0700; a socket left by a dead frontend is replaced).
  // Unavailable: the address cannot be listened on; InvalidArgument: PATH is longer than a socket's name may be (107
  // bytes).
  static absl::StatusOr<std::unique_ptr<JoinServer>> Start(Dispatcher& dispatcher, const std::string& address);
  virtual ~JoinServer() = default;  // ends all streams; the dispatcher must still live
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_JOIN_SERVICE_H_
