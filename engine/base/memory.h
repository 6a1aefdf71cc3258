// Memory that this process can use and has used, and the exit when an allocation fails.
#ifndef KINORA_ENGINE_BASE_MEMORY_H_
#define KINORA_ENGINE_BASE_MEMORY_H_

#include <cstdint>
#include <string>

namespace kinora {

struct MemoryLimit {
  int64_t bytes = 0;
  std::string by;  // the source of the limit: "this machine", "the control group", "ulimit -v"
};

// Returns the smallest of the machine's memory, the control group's limit (a container's), and ulimit -v less the
// address space already mapped.
MemoryLimit UsableMemory();

// Returns the peak resident memory of this process, pages of mapped files included (VmHWM of /proc/self/status;
// getrusage also counts the program before an exec); 0 if the kernel does not report it.
int64_t PeakProcessBytes();

// Call from main. Afterwards an allocation failure that no Status can report (a string, a thread's stack), on any
// thread, ends the process with exit status 1 and one line on stderr, "PROGRAM: RESOURCE_EXHAUSTED: …", instead of an
// abort.
void ExitWhenOutOfMemory(const char* program);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_MEMORY_H_
