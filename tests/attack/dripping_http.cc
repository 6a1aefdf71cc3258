// Unauthenticated clients occupy the HTTP port: with bodies sent one byte at a time, and with silent connections.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "tests/attack/attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr int kDripping = 60, kSilent = 300;
constexpr absl::Duration kAttack = absl::Seconds(10), kBetweenDrips = absl::Milliseconds(100);
constexpr absl::Duration kLongestAnswer = absl::Seconds(5);  // the timeout of an orchestrator's probe

void Wait(absl::Duration duration) {
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  bool never = false;
  Clock::Steady().AwaitUntil(mu, absl::Condition(&never), Clock::Steady().Now() + duration);
}

absl::Status Drip(const Target& target, Effort& effort) {
  const std::string address = absl::StrCat("127.0.0.1:", target.http_port());
  Clock& clock = Clock::Steady();
  std::vector<FileDescriptor> dripping, silent;
  for (int i = 0; i < kSilent; ++i) silent.push_back(ConnectTo(address));
  for (int i = 0; i < kDripping; ++i) {
    dripping.push_back(ConnectTo(address));
    effort.bytes +=
        std::max(0, SendSome(dripping.back(), "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"));
  }
  effort.connections += kSilent + kDripping;
  absl::Duration longest;
  for (const absl::Time end = clock.Now() + kAttack; clock.Now() < end; Wait(kBetweenDrips)) {
    for (const FileDescriptor& socket : dripping) effort.bytes += std::max(0, SendSome(socket, "x"));
    const absl::Time asked = clock.Now();
    absl::Status answered = target.PageIsOk("/livez");
    longest = std::max(longest, clock.Now() - asked);
    if (!answered.ok()) return answered;
    if (longest > kLongestAnswer) break;
  }
  return longest <= kLongestAnswer
             ? absl::OkStatus()
             : absl::DeadlineExceededError(absl::StrCat("/livez took ", absl::FormatDuration(longest)));
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack(
      {.name = "dripping_http", .flags = {}, .most_growth_bytes = 64 << 20, .attack = kinora::Drip});
}
