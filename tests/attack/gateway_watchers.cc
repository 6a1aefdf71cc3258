// Clients with a token at four addresses open as many event streams as one frontend has watches and read nothing, then
// open and leave thousands. Other calls must work meanwhile, and every stream must be given back.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"
#include "tests/e2e/gate.h"

namespace kinora {
namespace {

constexpr int kAddresses = 4, kPerAddress = 240, kRounds = 8;
constexpr absl::Duration kPatience = absl::Seconds(20);

std::string Watch(const GatewayTarget& target, const std::string& job) {
  return absl::StrCat(target.Head("GET", absl::StrCat("/v1/videos/", job, "/events")), "\r\n");
}

absl::Status AwaitStreams(const GatewayTarget& target, int least, int most) {
  const absl::Time end = Clock::Steady().Now() + kPatience;
  double streams = 0;
  do {
    streams = target.Metric("kinora_http_event_streams");
    if (streams >= least && streams <= most) return absl::OkStatus();
    Pause(absl::Milliseconds(20));
  } while (Clock::Steady().Now() < end);
  return absl::InternalError(absl::StrCat("there are ", streams, " event streams, not ", least, " to ", most));
}

absl::Status WatchAndLeave(const GatewayTarget& target, Effort& effort) {
  const TemporaryDirectory directory;
  Gate gate(directory);
  KINORA_ASSIGN_OR_RETURN(const std::string job, target.Create(gate.Prompt()));
  absl::Status status;
  for (int round = 0; round < kRounds && status.ok(); ++round) {
    std::vector<FileDescriptor> watchers;
    for (int i = 0; i < kAddresses * kPerAddress; ++i) {
      watchers.push_back(ConnectTo(target.address(), absl::StrCat("127.0.1.", 1 + i / kPerAddress)));
      effort.connections += 1;
      effort.bytes += std::max(0, SendSome(watchers.back(), Watch(target, job)));
    }
    status = AwaitStreams(target, kAddresses * kPerAddress, kAddresses * kPerAddress);
    // Beside them other calls work, and so does one more watch.
    if (status.ok()) status = target.Create("steps=1").status();
    const FileDescriptor honest = ConnectTo(target.address(), kHonestClient);
    SendAll(honest, Watch(target, job));
    std::string events;
    const absl::Time end = Clock::Steady().Now() + kPatience;
    while (!absl::StrContains(events, "event: snapshot") && Clock::Steady().Now() < end) {
      events += ReadAll(honest, absl::Milliseconds(100));
    }
    if (status.ok() && !absl::StrContains(events, "event: snapshot")) {
      status = absl::InternalError(absl::StrCat("a watch beside the others got ", events));
    }
    watchers.clear();
    if (status.ok()) status = AwaitStreams(target, 0, 1);  // the honest one
  }
  gate.Open();
  KINORA_RETURN_IF_ERROR(status);
  return AwaitStreams(target, 0, 0);
}

}  // namespace
}  // namespace kinora

int main() {
  // A client that opens streams again and again has a rate; here it is the attack's.
  return kinora::RunGatewayAttack({.name = "gateway_watchers",
                                   .flags = {"--max-requests-per-second=0"},
                                   .most_growth_bytes = 256 << 20,
                                   .attack = kinora::WatchAndLeave});
}
