// A client with a token takes all connections that the gateway gives to one address, and sends heads and bodies byte by
// byte. Clients at other addresses must be served meanwhile, and the slow connections must be ended.
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr int kConnections = 250;  // --max-connections-per-client
constexpr absl::Duration kAttack = absl::Seconds(45), kBetweenDrips = absl::Milliseconds(200);
constexpr absl::Duration kLongestAnswer = absl::Seconds(5);

// A third sends a head without end, a third a JSON body and a third a file.
std::string Beginning(const GatewayTarget& target, int i) {
  if (i % 3 == 0) return absl::StrCat(target.Head("GET", "/v1/videos"), "X-Slow: ");
  const std::string type = i % 3 == 1 ? "application/json" : "multipart/form-data; boundary=b";
  const std::string body = i % 3 == 1 ? "{"
                                      : "--b\r\nContent-Disposition: form-data; name=\"input_reference\"; "
                                        "filename=\"a\"\r\n\r\n";
  return absl::StrCat(target.Head("POST", "/v1/videos"), "Content-Type: ", type, "\r\nContent-Length: 1000000\r\n\r\n",
                      body);
}

absl::Status Drip(const GatewayTarget& target, Effort& effort) {
  Clock& clock = Clock::Steady();
  std::vector<FileDescriptor> open;
  for (int i = 0; i < kConnections; ++i) {
    open.push_back(ConnectTo(target.address()));
    effort.bytes += std::max(0, SendSome(open.back(), Beginning(target, i)));
  }
  effort.connections = kConnections;
  absl::Duration longest;
  for (const absl::Time end = clock.Now() + kAttack; clock.Now() < end && !open.empty(); Pause(kBetweenDrips)) {
    for (const FileDescriptor& socket : open) effort.bytes += std::max(0, SendSome(socket, "x"));
    std::erase_if(open, [](const FileDescriptor& socket) {  // the server has sent 408 and closed
      bool closed = false;
      ReadAll(socket, absl::ZeroDuration(), &closed);
      return closed;
    });
    const absl::Time asked = clock.Now();
    const absl::Status answered = target.IsLive();
    longest = std::max(longest, clock.Now() - asked);
    if (!answered.ok()) return answered;
  }
  if (longest > kLongestAnswer)
    return absl::DeadlineExceededError(absl::StrCat("/livez took ", absl::FormatDuration(longest)));
  if (open.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(open.size(), " slow requests were not ended"));
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunGatewayAttack(
      {.name = "gateway_slow_requests", .flags = {}, .most_growth_bytes = 64 << 20, .attack = kinora::Drip});
}
