// Unauthenticated clients open connections and send nothing, or half of a greeting.
#include <vector>

#include "tests/attack/attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr int kConnections = 4000;

absl::Status Connect(const Target& target, Effort& effort) {
  std::vector<FileDescriptor> connections;
  for (int i = 0; i < kConnections; ++i) {
    FileDescriptor socket = ConnectTo(target.address());
    if (!socket.ok()) break;  // the attacker has no descriptor or port left
    ++effort.connections;
    if (i % 2 == 0) effort.bytes += std::max(0, SendSome(socket, "PRI * HTTP/2.0\r\n"));
    connections.push_back(std::move(socket));
  }
  return target.PageIsOk("/livez");  // while the connections are open
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack(
      {.name = "many_connections", .flags = {}, .most_growth_bytes = 256 << 20, .attack = kinora::Connect});
}
