// The restrictions that kinora-decode puts itself under before it reads a byte of an untrusted file.
#ifndef KINORA_SERVER_DECODE_SANDBOX_H_
#define KINORA_SERVER_DECODE_SANDBOX_H_

#include <cstdint>

#include "absl/status/status.h"

namespace kinora {

// False in sanitizer builds, which need more than a decoder may have: they get the limits that they can live with and
// no filter. Tests of the filter are skipped; decoders run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSandboxFilters = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kSandboxFilters = false;
#else
inline constexpr bool kSandboxFilters = true;
#endif
#else
inline constexpr bool kSandboxFilters = true;
#endif

struct SandboxLimits {
  int64_t memory_bytes = int64_t{2} << 30;  // address space
  int cpu_seconds = 60;
  int seconds = 60;  // of real time from now on, also while asleep
};

// Restricts this process, which must have one thread, for the rest of its life:
//
// - It may read and write open descriptors, allocate memory, read the time, and exit. Any other system call kills it at
//   once (SIGSYS): it cannot use other files, sockets, programs or signals.
// - It gets no more memory and CPU time than the limits, and no new descriptor.
// - SIGKILL, which cannot be blocked, ends it after limits.seconds, or when the thread that started it ends.
// - The kernel ends it before any other process when memory is short.
//
// On an error, such as a kernel without seccomp, the caller must decode nothing.
absl::Status EnterSandbox(const SandboxLimits& limits);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_SANDBOX_H_
