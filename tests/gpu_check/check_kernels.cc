// Part "kernels": the bandwidth of memory-bound ops relative to a copy.
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/ops/dry_backend.h"
#include "tests/gpu_check/op_cases.h"
#include "tests/gpu_check/parts.h"

namespace kinora {
namespace {

constexpr double kGoal = 0.85;  // of a copy's bandwidth

// Returns the total bytes of the op's operands, each counted once.
int64_t FloorOf(const OpCase& c) {
  DryBackend dry;
  Workbench bench(dry);
  const PreparedOp prepared = c.prepare(bench);
  dry.ops().ResetCost();
  prepared.run();
  return dry.ops().cost().bytes();
}

// Returns the bandwidth of a copy on the device: bytes read and written per second.
absl::StatusOr<double> CopyBandwidth(Backend& backend, int64_t bytes, int runs) {
  Workbench bench(backend);
  const Tensor from = bench.Random(DType::kBF16, {bytes / 2}), to = bench.Output(DType::kBF16, {bytes / 2});
  KINORA_RETURN_IF_ERROR(bench.status());
  Stopwatch watch(backend.ops());
  absl::Status failed;
  KINORA_ASSIGN_OR_RETURN(const double seconds, watch.Median(runs, [&] {
    const cudaError_t error = cudaMemcpyAsync(to.raw(), from.raw(), bytes, cudaMemcpyDeviceToDevice, watch.stream());
    if (error != cudaSuccess) failed = absl::InternalError(cudaGetErrorString(error));
  }));
  KINORA_RETURN_IF_ERROR(failed);
  return 2 * static_cast<double>(bytes) / seconds;
}

absl::StatusOr<double> TimeCase(const OpCase& c, Backend& backend, const Settings& settings) {
  Workbench bench(backend);
  const PreparedOp prepared = c.prepare(bench);
  KINORA_RETURN_IF_ERROR(bench.status());
  return Stopwatch(backend.ops()).MedianOfGraph(settings.runs, settings.small ? 1 : 10, prepared.run);
}

std::vector<OpCase> TimedCases(bool small) {
  std::vector<OpCase> timed;
  const std::vector<Shape> shapes = small
                                        ? std::vector<Shape>{{24, 128}}
                                        : std::vector<Shape>{{15360, 4096}, {6144, 4096}, {15360, 2048}, {6144, 2048}};
  for (const Shape& shape : shapes) {
    for (OpCase& c : RowCases(shape[0], shape[1], DType::kBF16)) timed.push_back(std::move(c));
  }
  // The norm of the video decoder's last stage, at 768 x 512 x 121.
  for (OpCase& c : RowCases(small ? 40 : int64_t{121} * 128 * 192, 128, DType::kBF16)) {
    if (c.op == "RmsNorm and SiLU") timed.push_back(std::move(c));
  }
  return timed;
}

}  // namespace

void CheckKernels(const Settings& settings, Report& report) {
  auto opened = OpenBackend("cuda", {.threads = settings.threads});
  if (!opened.ok()) return report.NotAvailable(std::string(opened.status().message()));
  Backend& backend = **opened;
  const int64_t copied = settings.small ? 1 << 16 : 512 << 20;
  const auto bandwidth = CopyBandwidth(backend, copied, settings.runs);
  if (!bandwidth.ok()) return report.Fail("the copy that others are measured by", bandwidth.status());
  report.Add("yardstick",
             {{"what", "cudaMemcpyAsync on the device"}, {"MB", copied / 1e6}, {"GB/s", *bandwidth / 1e9}});
  for (const OpCase& c : TimedCases(settings.small)) {
    const std::string name = Cat(c.op, " ", c.shape);
    if (report.TimeIsUp(name)) continue;
    const double floor = static_cast<double>(FloorOf(c));
    const auto seconds = TimeCase(c, backend, settings);
    if (!seconds.ok()) {
      report.Fail(name, seconds.status());
      continue;
    }
    const double share = floor / *seconds / *bandwidth;
    report.Add("kernels", {{"op", c.op},
                           {"shape", c.shape},
                           {"us", *seconds * 1e6},
                           {"floor MB", floor / 1e6},
                           {"GB/s", floor / *seconds / 1e9},
                           {"share of copy", share},
                           {"goal", kGoal},
                           {"reached", share >= kGoal ? "yes" : "no"}});
  }
  report.Note(
      "bf16, ten in a graph, medians; floor: every operand once, computed; shapes of fewer than 200 MB partly lie in "
      "the second-level cache");
}

}  // namespace kinora
