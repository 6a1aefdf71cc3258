// Which run a waiting job of a higher priority interrupts (FrontendConfig.preempt_after_seconds). Pure functions; the
// dispatcher gathers the facts and carries out the choice (dispatcher_preemption.cc).
#ifndef KINORA_SERVER_FRONTEND_GROUPS_PREEMPTION_H_
#define KINORA_SERVER_FRONTEND_GROUPS_PREEMPTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace kinora {

constexpr int kMostPreemptions = 2;  // of one job

// A busy group that can run the waiting job, and what it is doing.
struct BusyGroup {
  std::string group;
  absl::Duration remaining = absl::InfiniteDuration();  // of its run; infinite: unknown
  bool stoppable = false;                               // its run is before decoding and is not being stopped already
  int priority = 0;                                     // of its run's job
  int32_t preemptions = 0;                              // likewise
  absl::Duration unsaved = absl::ZeroDuration();        // time since its run began or last stored its state
};

struct Place {
  size_t index = 0;        // of the group
  bool interrupt = false;  // false: its run ends soon enough by itself
};
// Returns the place for which a job of this priority waits, or nullopt if it just waits in the queue. If no group will
// be free within `longest_wait`, it is the one whose run has the lowest priority, then the least to lose.
std::optional<Place> ChoosePlace(int priority, absl::Duration longest_wait, absl::Span<const BusyGroup> groups);

// A group that takes no other job than this one, unless that has a higher priority.
struct Reservation {
  std::string job;
  int priority = 0;
  std::string incarnation;  // of the group
};
bool Admits(const Reservation& reservation, const std::string& job, int priority);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_PREEMPTION_H_
