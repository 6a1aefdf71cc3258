// What kinora-decode gives up before it looks at a byte of somebody's file.
#ifndef KINORA_SERVER_DECODE_SANDBOX_H_
#define KINORA_SERVER_DECODE_SANDBOX_H_

#include <cstdint>

#include "absl/status/status.h"

namespace kinora {

// A build with a sanitizer, whose own work asks for more than a decoder may have: it gets the limits that it can live
// with and no filter. Its tests of the filter are skipped, its decoders run.
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
};

// From here on this process, which has one thread and gets no other, may read and write what it has open, ask for
// memory and for the time, and end. Every other call of the system kills it at once (SIGSYS): no file, no socket, no
// program, no signal to anybody. More memory or time than the limits, or one more file, it does not get. Not to be
// undone. Unavailable: the kernel has no seccomp; then nothing may be decoded.
absl::Status EnterSandbox(const SandboxLimits& limits);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_SANDBOX_H_
