// Counts calls of operator new. Test binaries must link allocations.cc, which replaces the global operators.
#ifndef KINORA_TESTS_TESTING_ALLOCATIONS_H_
#define KINORA_TESTS_TESTING_ALLOCATIONS_H_

#include <cstdint>

namespace kinora {

int64_t AllocationsOfThisThread();  // since the thread started

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_ALLOCATIONS_H_
