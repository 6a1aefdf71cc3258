// A client on the worker's socket impersonates the supervised worker while it runs jobs, and sends invalid messages.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/build_version.h"
#include "tests/attack/attack.h"
#include "tests/attack/sockets.h"
#include "tests/e2e/server.h"
#include "tests/testing/join_call.h"

namespace kinora {
namespace {

constexpr int kRounds = 20, kHellos = 20, kNonsense = 20;  // kHellos and kNonsense: per round
constexpr int kLongBytes = 1 << 20;
constexpr size_t kMostLogBytes = 1 << 20;

v1::Hello Forge(const Target& target, int i) {
  const std::string log = target.Log();
  const size_t at = log.find("event=worker_started");
  v1::Hello hello;
  hello.set_incarnation(LogField(log.substr(at, log.find('\n', at) - at), "incarnation"));
  hello.set_group("0");
  hello.set_world_size(1 + i % 3);
  hello.set_rank(i % 3);
  hello.set_commit(ThisBuild().commit);
  hello.set_protocol(ThisBuild().protocol);
  if (i % 2 == 0) hello.set_secret(std::string(32, static_cast<char>(i)));
  return hello;
}

absl::Status Pose(const Target& target, Effort& effort) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<FileDescriptor> nonsense;
    for (int i = 0; i < kNonsense; ++i) {
      nonsense.push_back(ConnectTo(target.worker_address()));
      effort.bytes += std::max(0, SendSome(nonsense.back(), std::string(1000, static_cast<char>(i))));
    }
    for (int i = 0; i < kHellos; ++i) {
      const v1::Hello hello = Forge(target, i);
      const absl::Status answer = SayHello({target.worker_address()}, hello);
      if (!absl::IsPermissionDenied(answer))
        return absl::InternalError(absl::StrCat("a forged Hello got ", answer.ToString()));
      effort.bytes += static_cast<int64_t>(hello.ByteSizeLong());
    }
    v1::Hello longest = Forge(target, 0);
    longest.set_address(std::string(kLongBytes, 'x'));
    if (SayHello({target.worker_address()}, longest).ok()) return absl::InternalError("a forged Hello was welcomed");
    effort.bytes += kLongBytes;
    effort.connections += kNonsense + kHellos + 1;
    KINORA_RETURN_IF_ERROR(target.RunAJob().status());  // at its first attempt
  }
  const std::string log = target.Log();
  if (log.size() > kMostLogBytes) return absl::InternalError(absl::StrCat("the log has ", log.size(), " bytes"));
  return log.find("event=group_lost") == std::string::npos ? absl::OkStatus()
                                                           : absl::InternalError("the group was lost");
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack(
      {.name = "forged_hello", .flags = {}, .most_growth_bytes = 128 << 20, .attack = kinora::Pose});
}
