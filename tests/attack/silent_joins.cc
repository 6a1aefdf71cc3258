// A client with a worker token takes every connection of the join port and sends no Hello, or one with an incarnation
// of its own. A real rank must still be able to join.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "tests/attack/attack.h"
#include "tests/attack/joined_rank.h"
#include "tests/testing/join_call.h"

namespace kinora {
namespace {

constexpr int kConnections = 300;  // the frontend accepts 256
constexpr absl::Duration kPatience = absl::Seconds(40);

absl::Status SayNothing(const Target& target, Effort& effort) {
  std::vector<std::unique_ptr<JoinedRank>> silent;
  for (int i = 0; i < kConnections; ++i) {
    silent.push_back(std::make_unique<JoinedRank>(target));
    ++effort.connections;
  }
  const Caller caller{.address = target.join_address(), .token = Target::JoinToken()};
  Clock& clock = Clock::Steady();
  const absl::Time end = clock.Now() + kPatience;
  absl::Status welcomed;
  do {
    welcomed = SayHello(caller, JoinedRank::Hello());
  } while (!welcomed.ok() && clock.Now() < end);
  if (!welcomed.ok()) return absl::UnavailableError(absl::StrCat("a rank was kept out: ", welcomed.ToString()));
  v1::Hello own = JoinedRank::Hello();
  own.set_incarnation("mine");
  do {  // until the previous rank is gone
    welcomed = SayHello(caller, own);
  } while (welcomed.message().find("has already joined") != absl::string_view::npos);
  if (absl::IsFailedPrecondition(welcomed)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("an incarnation of its own got ", welcomed.ToString()));
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack({.name = "silent_joins",
                            .flags = {},
                            .join_port = true,
                            .most_growth_bytes = 128 << 20,
                            .attack = kinora::SayNothing});
}
