// Clients without a token send endless headers, thousands of headers and thousands of requests. Each flood must be
// answered with an error and ended, while another client is served.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr absl::Duration kAttack = absl::Seconds(10), kPatience = absl::Seconds(5);

struct Flood {
  std::string begin, repeated;
  const char* status;  // of the reply
};

std::vector<Flood> Floods() {
  const std::string get = "GET /livez HTTP/1.1\r\nHost: localhost\r\n";
  return {{get + "X: ", std::string(4096, 'x'), "HTTP/1.1 431"},
          {get, "X: y\r\n", "HTTP/1.1 431"},
          {get, absl::StrCat(std::string(1000, 'x'), ": y\r\n"), "HTTP/1.1 431"},
          {"GET /", std::string(4096, 'a'), "HTTP/1.1 431"},
          {"", std::string(4096, 'G'), "HTTP/1.1 431"},
          {get + "Cookie: ", "a=b; ", "HTTP/1.1 431"},
          {"", std::string("\x16\x03\x01\x02\x00\r\n\r\n", 9), "HTTP/1.1 400"},  // TLS to the port without it
          {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", std::string(9, '\0'), "HTTP/1.1 400"}};
}

// Sends until the server ends the connection, at most 4 MiB, and checks its reply.
absl::Status Send(const GatewayTarget& target, const Flood& flood, Effort& effort) {
  const FileDescriptor socket = ConnectTo(target.address());
  effort.connections += 1;
  std::string block = flood.begin;
  bool closed = false;
  for (size_t sent = 0; sent < 4 << 20 && !closed; sent += block.size()) {
    while (block.size() < 64 << 10) block += flood.repeated;
    closed = !SendAll(socket, block);
    effort.bytes += static_cast<int64_t>(block.size());
    if (!closed) block.clear();
  }
  const std::string reply = ReadAll(socket, kPatience, &closed);
  if (!closed) return absl::InternalError(absl::StrCat("a flood of headers was not ended: ", flood.begin));
  // Without a reply: the kernel has reset the connection for what came after the last byte that the server read.
  if (reply.empty() || absl::StartsWith(reply, flood.status)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(flood.begin, " was answered with ", reply));
}

// Requests in a row on one connection: the rate of a client is limited.
absl::Status SendManyRequests(const GatewayTarget& target, Effort& effort) {
  const FileDescriptor socket = ConnectTo(target.address());
  effort.connections += 1;
  std::string requests;
  for (int i = 0; i < 5000; ++i) requests += "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
  effort.bytes += static_cast<int64_t>(requests.size());
  SendAll(socket, requests);
  bool closed = false;
  const std::string replies = ReadAll(socket, kPatience, &closed);
  if (closed) return absl::OkStatus();
  return absl::InternalError("5,000 requests in a row were not ended");
}

absl::Status FloodAll(const GatewayTarget& target, Effort& effort) {
  Clock& clock = Clock::Steady();
  for (const absl::Time end = clock.Now() + kAttack; clock.Now() < end;) {
    for (const Flood& flood : Floods()) {
      if (absl::Status sent = Send(target, flood, effort); !sent.ok()) return sent;
    }
    if (absl::Status sent = SendManyRequests(target, effort); !sent.ok()) return sent;
    if (absl::Status served = target.Serves(); !served.ok()) return served;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunGatewayAttack(
      {.name = "gateway_header_floods", .flags = {}, .most_growth_bytes = 32 << 20, .attack = kinora::FloodAll});
}
