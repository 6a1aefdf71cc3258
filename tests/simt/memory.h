// Test only: CUDA's fences and atomic functions on the simulated device (simt.h).
#ifndef KINORA_TESTS_SIMT_MEMORY_H_
#define KINORA_TESTS_SIMT_MEMORY_H_
// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's own names
#include <type_traits>

#include "tests/simt/machine.h"

inline void __threadfence() { kinora::simt::Fence(); }
inline void __threadfence_system() { kinora::simt::Fence(); }
template <typename T>
T __ldg(const T* p) {
  return *p;
}
// Relaxed, like CUDA's: it orders no other accesses.
template <typename T>
T atomicAdd(T* to, T by) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(to, by, __ATOMIC_RELAXED);
  } else {
    T old, sum;
    __atomic_load(to, &old, __ATOMIC_RELAXED);
    do {
      sum = old + by;
    } while (!__atomic_compare_exchange(to, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
  }
}
template <typename T>
T atomicExch(T* to, T value) {
  return __atomic_exchange_n(to, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicMax(T* to, T value) {
  static_assert(std::is_integral_v<T>);
  T old = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(to, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <typename T>
T atomicMin(T* to, T value) {
  T old = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (old > value && !__atomic_compare_exchange_n(to, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// NOLINTEND(bugprone-reserved-identifier)
#endif  // KINORA_TESTS_SIMT_MEMORY_H_
