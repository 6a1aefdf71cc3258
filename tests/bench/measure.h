// Times and memory of this process, and what is made of several of them.
#ifndef KINORA_TESTS_BENCH_MEASURE_H_
#define KINORA_TESTS_BENCH_MEASURE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kinora {

// Seconds. On a machine that others use too, `processor` is the steadier of the two.
struct Times {
  double wall = 0;
  double processor = 0;  // of all threads, user and system
};

Times Now();
Times Measure(absl::FunctionRef<void()> run);
double Median(std::vector<double> values);  // the upper one of an even number
Times Medians(const std::vector<Times>& times);

// Anonymous memory of this process now, bytes (RssAnon of /proc/self/status); -1 if the system does not say.
int64_t AnonymousBytes();

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_MEASURE_H_
