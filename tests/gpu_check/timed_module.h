// Measures the time that a module of a model takes on the device, with random inputs.
#ifndef KINORA_TESTS_GPU_CHECK_TIMED_MODULE_H_
#define KINORA_TESTS_GPU_CHECK_TIMED_MODULE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/parallel/exec.h"
#include "tests/gpu_check/parts.h"

namespace kinora {

struct TimedModule {
  std::string table, name;
  const char* shown;  // heading of the column for `shape`
  Shape in, out;      // f32
  Shape shape;
  std::function<void(Exec& exec, const Tensor& in, Tensor out)> forward;
  Report::Row goals{};  // additional columns
};

// Adds a row with the eager time, the graph's time and the rate of the products, in bfloat16.
absl::Status TimeModule(const TimedModule& module, const Settings& settings, Backend& backend, Report& report);

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_TIMED_MODULE_H_
