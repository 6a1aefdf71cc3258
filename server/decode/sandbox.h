// What kinora-decode gives up before it looks at a byte of somebody's file.
#ifndef KINORA_SERVER_DECODE_SANDBOX_H_
#define KINORA_SERVER_DECODE_SANDBOX_H_

#include <cstdint>

#include "absl/status/status.h"

namespace kinora {

struct SandboxLimits {
  int64_t memory_bytes = int64_t{2} << 30;  // address space; not in a build with a sanitizer, which maps terabytes
  int cpu_seconds = 60;
};

// From here on this process, which has one thread and gets no other, may read and write what it has open, ask for
// memory and for the time, and end. Every other call of the system kills it at once (SIGSYS): no file, no socket, no
// program, no signal to anybody. More memory or time than the limits, or one more file, it does not get. Not to be
// undone. Unavailable: the kernel has no seccomp; then nothing may be decoded.
absl::Status EnterSandbox(const SandboxLimits& limits);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_SANDBOX_H_
