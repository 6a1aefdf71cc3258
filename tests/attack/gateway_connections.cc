// Clients without a token at many addresses open all connections that the gateway has and say nothing, or half a
// request. Memory stays within its bound, and the service recovers when they leave.
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr int kConnections = 4000, kPerAddress = 300;  // more than --max-connections and --max-connections-per-client

absl::Status Connect(const GatewayTarget& target, Effort& effort) {
  // One address alone leaves the others their share.
  std::vector<FileDescriptor> connections;
  for (int i = 0; i < kConnections; ++i) {
    FileDescriptor socket = ConnectTo(target.address(), absl::StrCat("127.0.1.", 1 + i / kPerAddress));
    if (!socket.ok()) break;
    ++effort.connections;
    if (i % 2 == 0) effort.bytes += std::max(0, SendSome(socket, "GET /livez HTTP/1.1\r\n"));
    connections.push_back(std::move(socket));
    if (i + 1 == kPerAddress) KINORA_RETURN_IF_ERROR(target.Serves());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunGatewayAttack(
      {.name = "gateway_connections", .flags = {}, .most_growth_bytes = 128 << 20, .attack = kinora::Connect});
}
