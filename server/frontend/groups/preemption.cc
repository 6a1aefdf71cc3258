#include "server/frontend/groups/preemption.h"

#include <algorithm>
#include <tuple>

namespace kinora {

std::optional<Place> ChoosePlace(int priority, absl::Duration longest_wait, absl::Span<const BusyGroup> groups) {
  std::optional<Place> place;
  const auto better = [&](size_t a, size_t b) {
    return std::tuple(groups[a].priority, groups[a].unsaved) < std::tuple(groups[b].priority, groups[b].unsaved);
  };
  const auto soonest = std::min_element(
      groups.begin(), groups.end(), [](const BusyGroup& a, const BusyGroup& b) { return a.remaining < b.remaining; });
  if (soonest != groups.end() && soonest->remaining <= longest_wait) {
    return Place{.index = static_cast<size_t>(soonest - groups.begin())};
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const BusyGroup& group = groups[i];
    if (!group.stoppable || group.priority >= priority || group.preemptions >= kMostPreemptions) continue;
    if (!place || better(i, place->index)) place = Place{.index = i, .interrupt = true};
  }
  return place;
}

bool Admits(const Reservation& reservation, const std::string& job, int priority) {
  return job == reservation.job || priority > reservation.priority;
}

}  // namespace kinora
