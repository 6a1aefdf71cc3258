#include "engine/ops/thread_pool.h"

#include "absl/time/time.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kinora {
namespace {

// The bit fields of roll_.
constexpr int kGenerationShift = 32;
constexpr uint64_t kClosed = uint64_t{1} << 31;
constexpr uint64_t kJoined = kClosed - 1;

// Longer than the gap between two ops of a forward pass; short enough that an idle pool does not occupy processors.
constexpr absl::Duration kSpin = absl::Microseconds(200);

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Returns once `value` is no longer `old`: spins, then sleeps until notified.
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  const absl::Time until = Clock::Steady().Now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      Pause();
    }
  } while (Clock::Steady().Now() < until);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  KINORA_CHECK(threads >= 1) << threads;
  workers_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::DoTasks(Task task, int64_t count, int thread) {
  for (int64_t i = next_.fetch_add(1); i < count; i = next_.fetch_add(1)) task(i, thread);
}

void ThreadPool::Run(int64_t count, Task task) {
  if (workers_.empty() || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task(i, 0);
    return;
  }
  KINORA_CHECK(task_ == nullptr) << "a pool is used by one caller at a time, and its tasks do not run it again";
  task_ = &task;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  roll_.store(uint64_t{generation} << kGenerationShift, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  DoTasks(task, count, 0);
  const uint64_t joined = roll_.fetch_or(kClosed, std::memory_order_acq_rel) & kJoined;
  for (uint32_t done = finished_.load(std::memory_order_acquire); done != joined;) done = AwaitChange(finished_, done);
  task_ = nullptr;
}

bool ThreadPool::Join(uint32_t generation) {
  uint64_t roll = roll_.load(std::memory_order_acquire);
  while ((roll >> kGenerationShift) == generation && (roll & kClosed) == 0) {
    if (roll_.compare_exchange_weak(roll, roll + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadPool::WorkerLoop(int thread) {
  for (uint32_t seen = 0;;) {
    seen = AwaitChange(generation_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!Join(seen)) continue;
    DoTasks(*task_, count_, thread);
    finished_.fetch_add(1, std::memory_order_release);
    finished_.notify_one();
  }
}

}  // namespace kinora
