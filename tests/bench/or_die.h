#ifndef KINORA_TESTS_BENCH_OR_DIE_H_
#define KINORA_TESTS_BENCH_OR_DIE_H_

#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/check.h"

namespace kinora {

// Returns the value. Benchmarks end on an error.
template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_OR_DIE_H_
