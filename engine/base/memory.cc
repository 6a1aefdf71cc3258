#include "engine/base/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <system_error>

#include "engine/base/logging.h"

namespace kinora {
namespace {

const char* g_program = "kinora";

// Returns the number in a file; −1 for "max" or a missing file.
int64_t NumberIn(const char* path) {
  int64_t number = -1;
  std::ifstream file(path);
  return file >> number ? number : -1;
}

int64_t MappedBytes() { return NumberIn("/proc/self/statm") * sysconf(_SC_PAGE_SIZE); }

[[noreturn]] void Leave(const char* why) {
  // No allocation here: there is no memory.
  for (const char* part : {g_program, ": RESOURCE_EXHAUSTED: ", why, "\n"}) {
    SayAtLast(part);
  }
  _exit(1);
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::bad_alloc&) {
      Leave("out of memory (ulimit -v, or the machine's is used up)");
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) {
        Leave("a thread could not be started (no memory for its stack, ulimit -v, or too many, ulimit -u)");
      }
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace

MemoryLimit UsableMemory() {
  MemoryLimit limit{sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE), "this machine"};
  // A container sees its own group at the root of the hierarchy: version 2, then version 1.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t bytes = NumberIn(path);
    if (bytes > 0 && bytes < limit.bytes) limit = {bytes, "the control group"};
  }
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    const int64_t left = std::max<int64_t>(0, static_cast<int64_t>(address_space.rlim_cur) - MappedBytes());
    if (left < limit.bytes) limit = {left, "ulimit -v"};
  }
  return limit;
}

int64_t PeakProcessBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

void ExitWhenOutOfMemory(const char* program) {
  g_program = program;
  std::set_terminate(OnTerminate);
}

}  // namespace kinora
