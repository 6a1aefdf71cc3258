// A joined rank sends its model description repeatedly: first of the maximum size, then larger ones, rejoining each
// time.
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "tests/attack/attack.h"
#include "tests/attack/joined_rank.h"

namespace kinora {
namespace {

constexpr absl::Duration kEach = absl::Seconds(5);

void Describe(const Target& target, int64_t bytes, Effort& effort) {
  Clock& clock = Clock::Steady();
  v1::WorkerMessage message;
  for (const absl::Time end = clock.Now() + kEach; clock.Now() < end;) {
    JoinedRank rank(target);
    ++effort.connections;
    if (!rank.Join()) continue;
    *message.mutable_model() = JoinedRank::Model();
    std::string& lora = *message.mutable_model()->add_loras();
    for (int64_t i = 0; clock.Now() < end; ++i) {
      lora = absl::StrCat(i, std::string(bytes, 'x'));
      if (!rank.Say(message)) break;
      effort.bytes += bytes;
    }
  }
}

absl::Status DescribeWithoutEnd(const Target& target, Effort& effort) {
  for (const int64_t bytes : {200 << 10, 1 << 20, 3 << 20}) {
    Describe(target, bytes, effort);
    KINORA_RETURN_IF_ERROR(target.RunAJob().status());
  }
  const size_t log = target.Log().size();
  if (log < 2 << 20) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the log has ", log, " bytes"));
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack({.name = "endless_descriptions",
                            .flags = {},
                            .join_port = true,
                            .most_growth_bytes = 384 << 20,
                            .attack = kinora::DescribeWithoutEnd});
}
