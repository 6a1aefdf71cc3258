// Compares our matrix products with oneDNN's, for the shapes of a transformer forward pass, and with the machine's
// limits.
//   OMP_NUM_THREADS=THREADS matmul_bench f32|bf16 THREADS REPEATS INPUTS.safetensors MODEL…
// INPUTS and MODEL are those of model_bench for the transformer; only shapes and the configuration are read. Prints a
// Markdown table with one line per shape: number of calls, both rates in GFLOP per second of wall time (medians of
// alternating runs), and their ratios by wall and processor time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "tests/bench/ceilings.h"
#include "tests/bench/measure.h"
#include "tests/bench/model_parts.h"
#include "tests/bench/onednn_product.h"

namespace kinora {
namespace {

using ProductShape = std::tuple<int64_t, int64_t, int64_t>;  // rows, in, out

// Records the shapes of requested products.
class RecordingOps : public DryOps {
 public:
  void Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) override {
    DryOps::Matmul(x, w, options, out);
    ++calls_[{x.rows(), w.in(), w.out()}];
  }
  const std::map<ProductShape, int>& calls() const { return calls_; }
  void Forget() { calls_.clear(); }

 private:
  std::map<ProductShape, int> calls_;
};

struct Pair {
  Times ours, onednn;
};

Pair Compare(const ProductShape& shape, DType precision, int repeats, Ops& ops) {
  const int64_t rows = std::get<0>(shape), in = std::get<1>(shape), out = std::get<2>(shape);
  Buffer matrix_memory = *Buffer::Allocate(in * out * 4), x_memory = *Buffer::Allocate(rows * in * 4);
  Buffer out_memory = *Buffer::Allocate(rows * out * 4);
  const Tensor matrix = matrix_memory.View(DType::kF32, {out, in}), x = x_memory.View(precision, {rows, in});
  for (int64_t i = 0; i < in * out; ++i) matrix.data<float>()[i] = static_cast<float>(i % 31) / 16.0f - 1.0f;
  ops.Fill(0.5f, x);
  const absl::StatusOr<Weight> weight = ops.PrepareWeight(matrix, nullptr, precision);
  KINORA_CHECK(weight.ok()) << weight.status().ToString();
  OneDnnProduct onednn(rows, in, out, precision == DType::kBF16);
  const auto run = [&] { ops.Matmul(x, *weight, {}, out_memory.View(precision, {rows, out})); };
  // Short products run several times per measurement, because processor time is counted in ticks.
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  const int inner = static_cast<int>(std::clamp(2e9 / flops, 1.0, 1000.0));
  const auto per_run = [inner](const Times& t) { return Times{t.wall / inner, t.processor / inner}; };
  // Threads spin briefly after their work (OpenMP's for milliseconds). The next measurement must not share a core with
  // them.
  const auto settle = [] { absl::SleepFor(absl::Milliseconds(50)); };
  std::vector<Times> ours, theirs;
  for (int i = 0; i <= repeats; ++i) {
    const Times a = Measure([&] {
      for (int j = 0; j < inner; ++j) run();
    });
    settle();
    const Times b = Measure([&] {
      for (int j = 0; j < inner; ++j) onednn.Run();
    });
    settle();
    if (i == 0) continue;  // the first run touches the memory
    ours.push_back(per_run(a));
    theirs.push_back(per_run(b));
  }
  return {.ours = Medians(ours), .onednn = Medians(theirs)};
}

void PrintCeilings(int threads) {
  const Ceilings ceilings = MeasureCeilings();
  std::printf(
      "Ceilings, one core: multiply-adds %.1f GFLOP/s in f32, %.1f in bf16; copy %.1f GB/s (read + written)\n\n",
      ceilings.f32_flops / 1e9, ceilings.bf16_flops / 1e9, ceilings.copy_bytes / 1e9);
  std::printf(
      "| product (rows x in x out) | calls | ours GFLOP/s | oneDNN GFLOP/s | ratio, wall | ratio, processor |\n");
  std::printf("|---|---:|---:|---:|---:|---:|\n");
  std::fprintf(stderr, "%d threads\n", threads);
}

void PrintLine(const std::string& name, int calls, double flops, const Pair& t) {
  std::printf("| %s | %d | %.1f | %.1f | %.2f | %.2f |\n", name.c_str(), calls, flops / t.ours.wall / 1e9,
              flops / t.onednn.wall / 1e9, t.onednn.wall / t.ours.wall, t.onednn.processor / t.ours.processor);
  std::fflush(stdout);
}

absl::Status Main(int argc, char** argv) {
  if (argc < 6) return absl::InvalidArgumentError("matmul_bench f32|bf16 THREADS REPEATS INPUTS.safetensors MODEL...");
  const DType precision = std::string(argv[1]) == "f32" ? DType::kF32 : DType::kBF16;
  const int threads = std::atoi(argv[2]), repeats = std::atoi(argv[3]);
  if (threads < 1 || repeats < 1) return absl::InvalidArgumentError("THREADS and REPEATS: at least 1");
  KINORA_ASSIGN_OR_RETURN(const ModelFiles files, ModelFiles::Parse(std::vector<std::string>(argv + 5, argv + argc)));
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(files));
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
  KINORA_ASSIGN_OR_RETURN(const InputFile inputs, InputFile::Open(argv[4]));
  RecordingOps recorder;
  KINORA_RETURN_IF_ERROR(DryTransformer(config, inputs, precision, recorder, [&] { recorder.Forget(); }));
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, OpenBackend("cpu", {.threads = threads}));
  PrintCeilings(threads);
  Pair total{};
  double total_flops = 0;
  int total_calls = 0;
  for (const auto& [shape, calls] : recorder.calls()) {
    const auto [rows, in, out] = shape;
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
    const Pair t = Compare(shape, precision, repeats, backend->ops());
    PrintLine(absl::StrCat(rows, " x ", in, " x ", out), calls, flops, t);
    for (auto [sum, part] : {std::pair(&total.ours, t.ours), std::pair(&total.onednn, t.onednn)}) {
      sum->wall += calls * part.wall;
      sum->processor += calls * part.processor;
    }
    total_flops += calls * flops;
    total_calls += calls;
  }
  PrintLine("all products of a forward pass", total_calls, total_flops, total);
  return absl::OkStatus();
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  const absl::Status status = kinora::Main(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "matmul_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}
