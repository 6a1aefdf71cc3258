#include "tests/gpu_check/timed_module.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/ops/dry_backend.h"
#include "tests/gpu_check/workbench.h"

namespace kinora {

absl::Status TimeModule(const TimedModule& module, const Settings& settings, Backend& backend, Report& report) {
  const auto mesh = Mesh::Single();
  DryBackend dry(backend.traits());
  Arena dry_arena = Arena::Dry();
  Exec dry_exec{.backend = dry, .arena = dry_arena, .host = dry_arena, .mesh = *mesh, .dtype = DType::kBF16};
  module.forward(dry_exec, Tensor(DType::kF32, module.in, nullptr), Tensor(DType::kF32, module.out, nullptr));
  const double flops = dry.ops().cost().flops();

  KINORA_ASSIGN_OR_RETURN(Buffer memory, backend.Allocate(dry_arena.peak(), "the module's activations"));
  Arena arena(std::move(memory)), host = Arena::Dry();
  Exec exec{.backend = backend, .arena = arena, .host = host, .mesh = *mesh, .dtype = DType::kBF16};
  Workbench bench(backend);
  const Tensor in = bench.Random(DType::kF32, module.in), out = bench.Output(DType::kF32, module.out);
  KINORA_RETURN_IF_ERROR(bench.status());
  Stopwatch watch(backend.ops());
  const auto run = [&] { module.forward(exec, in, out); };
  KINORA_ASSIGN_OR_RETURN(const double eager, watch.Median(std::min(settings.runs, 3), run));
  KINORA_ASSIGN_OR_RETURN(const double graph, watch.MedianOfGraph(settings.runs, 1, run));
  Report::Row row = {{"model", module.name},    {module.shown, module.shape.ToString()},
                     {"eager ms", eager * 1e3}, {"graph ms", graph * 1e3},
                     {"TFLOP", flops / 1e12},   {"TFLOP/s", flops / graph / 1e12}};
  row.insert(row.end(), module.goals.begin(), module.goals.end());
  report.Add(module.table, row);
  return absl::OkStatus();
}

}  // namespace kinora
