#include "server/net/event_loop.h"

#include <utility>

namespace kinora {

EventLoop::EventLoop(Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

void EventLoop::Post(Task task) {
  absl::MutexLock lock(&mu_);
  if (!stopping_) tasks_.push_back(std::move(task));
}

void EventLoop::PostAt(absl::Time time, Task task) {
  absl::MutexLock lock(&mu_);
  if (stopping_) return;
  timers_.emplace(time, std::move(task));
  timers_changed_ = true;
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  // Destroyed outside the lock, because destroying a task may post another.
  std::deque<Task> tasks;
  std::multimap<absl::Time, Task> timers;
  absl::MutexLock lock(&mu_);
  tasks.swap(tasks_);
  timers.swap(timers_);
}

void EventLoop::Run() {
  const auto awake = [this] {
    mu_.AssertHeld();
    return stopping_ || timers_changed_ || !tasks_.empty();
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mu_);
      const absl::Time next = timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first;
      clock_.AwaitUntil(mu_, absl::Condition(&awake), next);
      timers_changed_ = false;
      if (stopping_) return;
      if (!timers_.empty() && timers_.begin()->first <= clock_.Now()) {
        task = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
      } else if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      } else {
        continue;
      }
    }
    task();
  }
}

}  // namespace kinora
