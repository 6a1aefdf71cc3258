// Counts calls of operator new. Link allocations.cc into the test binary: it replaces the global operators.
#ifndef KINORA_TESTS_TESTING_ALLOCATIONS_H_
#define KINORA_TESTS_TESTING_ALLOCATIONS_H_

#include <cstdint>

namespace kinora {

int64_t AllocationsOfThisThread();  // since it started

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_ALLOCATIONS_H_
