#include "tests/testing/allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t allocations = 0;
}

namespace kinora {
int64_t AllocationsOfThisThread() { return allocations; }
}  // namespace kinora

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
