#include "tests/server/frontend/simulation/world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kinora::simulation {
namespace {

constexpr size_t kMostNotes = 60;

}  // namespace

absl::Duration World::Between(absl::Duration least, absl::Duration most) {
  const int64_t range = absl::ToInt64Microseconds(most - least);
  return least + absl::Microseconds(range <= 0 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(range)));
}

void World::At(absl::Time time, Task task) {
  tasks_.emplace(std::pair(std::max(time, now()), next_++), std::move(task));
}

bool World::RunNext() {
  if (tasks_.empty()) return false;
  const auto first = tasks_.begin();
  if (first->first.first > now()) clock_.Advance(first->first.first - now());
  Task task = std::move(first->second);
  tasks_.erase(first);
  task();
  return true;
}

void World::Note(const std::string& what) {
  notes_.push_back(absl::StrCat(absl::ToUnixMillis(now()) % 100'000'000, " ", what));
  digest_ = 31 * digest_ + std::hash<std::string>()(notes_.back());
  if (notes_.size() > kMostNotes) notes_.pop_front();
}

std::string World::Notes() const { return absl::StrJoin(notes_, "\n"); }

void SimExecutor::Post(Task task) {
  last_ = std::max(last_, world_.now()) + world_.Between(absl::ZeroDuration(), slowest_);
  At(last_, std::move(task));
}

void SimExecutor::PostAt(absl::Time time, Task task) {
  if (time == absl::InfiniteFuture()) return;
  At(time, std::move(task));
}

void SimExecutor::At(absl::Time time, Task task) {
  world_.At(time, [this, running = running_, paused = paused_until_, task = std::move(task)]() mutable {
    if (!*running) return;
    if (*paused > world_.now()) return At(*paused, std::move(task));
    task();
  });
}

}  // namespace kinora::simulation
