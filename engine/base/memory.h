// How much memory this process can get, and what it says when it gets none.
#ifndef KINORA_ENGINE_BASE_MEMORY_H_
#define KINORA_ENGINE_BASE_MEMORY_H_

#include <cstdint>
#include <string>

namespace kinora {

struct MemoryLimit {
  int64_t bytes = 0;
  std::string by;  // what sets it: "this machine", "the control group", "ulimit -v"
};

// The least of the machine's memory, the control group's limit (a container's) and what ulimit -v leaves beyond what is
// mapped already.
MemoryLimit UsableMemory();

// The most memory that this process has held at once, pages of mapped files included (VmHWM of /proc/self/status;
// getrusage counts the program before an exec, too); 0: the kernel does not say.
int64_t PeakProcessBytes();

// For main: an allocation that fails where no Status can carry it (a string, a thread's stack), on any thread, ends the
// process with exit status 1 and one line on stderr, "PROGRAM: RESOURCE_EXHAUSTED: …", instead of an abort.
void ExitWhenOutOfMemory(const char* program);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_MEMORY_H_
