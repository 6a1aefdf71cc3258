// Time and memory measurements of this process, and statistics of them.
#ifndef KINORA_TESTS_BENCH_MEASURE_H_
#define KINORA_TESTS_BENCH_MEASURE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kinora {

// In seconds. On a machine shared with other work, `processor` varies less.
struct Times {
  double wall = 0;
  double processor = 0;  // all threads, user and system
};

Times Now();
Times Measure(absl::FunctionRef<void()> run);
double Median(std::vector<double> values);  // the upper one if their number is even
Times Medians(const std::vector<Times>& times);

// Returns this process's current anonymous memory in bytes (RssAnon of /proc/self/status); -1 if it is not available.
int64_t AnonymousBytes();

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_MEASURE_H_
