// How long a module of a model takes on the device, from drawn values to its output.
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
  const char* shown;  // the column of `shape`
  Shape in, out;      // f32
  Shape shape;
  std::function<void(Exec& exec, const Tensor& in, Tensor out)> forward;
  Report::Row goals{};  // further columns
};

// Adds a row: eager and in a graph, in bfloat16, and the rate of its products.
absl::Status TimeModule(const TimedModule& module, const Settings& settings, Backend& backend, Report& report);

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_TIMED_MODULE_H_
