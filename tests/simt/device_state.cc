#include "tests/simt/device_state.h"

#include <sched.h>

#include <atomic>

#include "tests/simt/fiber.h"

namespace kinora::simt {
namespace {

std::atomic<bool> busy = false;
thread_local int depth = 0;

struct State {
  uint64_t random = 1;
  bool random_order = true;
  std::string failure;
  Counts counts;
};
State& Device() {
  static auto* const state = new State;
  return *state;
}

}  // namespace

DeviceLock::DeviceLock() {
  if (depth++ > 0) return;
  while (busy.exchange(true, std::memory_order_acquire)) sched_yield();
}

DeviceLock::~DeviceLock() {
  if (--depth == 0) busy.store(false, std::memory_order_release);
}

void LoseDevice(const std::string& why) {
  const Unwatched unwatched;
  if (Device().failure.empty()) Device().failure = why;
}
bool Lost() { return !Device().failure.empty(); }

uint64_t Random() {
  State& s = Device();
  if (!s.random_order) return 0;
  s.random ^= s.random << 13;
  s.random ^= s.random >> 7;
  s.random ^= s.random << 17;
  return s.random;
}

Counts& Counters() { return Device().counts; }

void Seed(uint64_t seed, bool random_order) {
  const DeviceLock lock;
  Device().random = seed * 0x9e3779b97f4a7c15ull + 1;
  Device().random_order = random_order;
}

std::string Failure() {
  const DeviceLock lock;
  const Unwatched unwatched;
  return Device().failure;
}

void ForgetFailure() { Device().failure.clear(); }

Counts Counted() {
  const DeviceLock lock;
  return Device().counts;
}

void ResetCounts() {
  const DeviceLock lock;
  Device().counts = Counts();
}

}  // namespace kinora::simt
