// Part "probes": the algorithms of cuBLASLt and cuDNN for the model's shapes.
#include <chrono>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/ops/cuda/cublaslt.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda_traits.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/workbench.h"

namespace kinora {
namespace {

struct ProductShape {
  const char* what;
  int64_t m, n, k;
};
constexpr ProductShape kProducts[] = {{"QKV, 6144 b2", 12288, 12288, 4096},      {"out, 6144 b2", 12288, 4096, 4096},
                                      {"ff1, 6144 b2", 12288, 16384, 4096},      {"ff2, 6144 b2", 12288, 4096, 16384},
                                      {"QKV, 15360 b2", 30720, 12288, 4096},     {"ff2, 15360 b2", 30720, 4096, 16384},
                                      {"audio K and V, 126 b2", 252, 8192, 2048}};
constexpr ProductShape kSmallProducts[] = {{"tiny", 24, 48, 64}, {"narrow", 9, 16, 32}};

struct AttentionShape {
  const char* what;
  int64_t batch, heads, queries, keys, width;
};
constexpr AttentionShape kAttentions[] = {
    {"self, 6144 b2", 2, 32, 6144, 6144, 128},          {"self, 15360 b2", 2, 32, 15360, 15360, 128},
    {"self, 32640", 1, 32, 32640, 32640, 128},          {"text, 6144 b2", 2, 32, 6144, 1024, 128},
    {"audio to video", 2, 32, 6144, 126, 64},           {"video to audio", 2, 32, 126, 6144, 64},
    {"video to audio, long", 2, 32, 126, 15360, 64},    {"a quarter of the heads", 1, 8, 15360, 15360, 128},
    {"an eighth of the heads", 1, 4, 15360, 15360, 128}};
constexpr AttentionShape kSmallAttentions[] = {{"tiny", 2, 2, 24, 24, 64}, {"few keys", 2, 2, 24, 9, 64}};

absl::Status ProbeProduct(const ProductShape& shape, const char* epilogue, const Settings& settings, Backend& backend,
                          Report& report) {
  KINORA_ASSIGN_OR_RETURN(const Buffer workspace, backend.Allocate(kProductWorkspaceBytes, "a probe's workspace"));
  KINORA_ASSIGN_OR_RETURN(
      const auto products,
      Products::Open(workspace.bytes(), {.tuning_file = settings.work + "/products", .device = "probe"}));
  Workbench bench(backend);
  const Tensor x = bench.Random(DType::kBF16, {shape.m, shape.k}),
               w = bench.Random(DType::kBF16, {shape.n, shape.k}, 0.02f);
  const Tensor y = bench.Output(DType::kBF16, {shape.m, shape.n}), bias = bench.Random(DType::kBF16, {shape.n});
  KINORA_RETURN_IF_ERROR(bench.status());
  Product product{.m = shape.m, .n = shape.n, .k = shape.k};
  product.a = {.data = x.raw(), .dtype = DType::kBF16, .stride = shape.k};
  product.b = {.data = w.raw(), .dtype = DType::kBF16, .stride = shape.k, .transposed = true};
  product.d = {.data = y.raw(), .dtype = DType::kBF16, .stride = shape.n};
  if (std::string_view(epilogue) != "none") product.bias = bias.raw();
  product.gelu = std::string_view(epilogue) == "bias, GELU";
  const int candidates = products->Candidates(product);
  Report::Row row = {{"product", shape.what}, {"m", shape.m}, {"n", shape.n}, {"k", shape.k}, {"epilogue", epilogue}};
  row.emplace_back("algorithms", candidates);
  row.emplace_back("ms", Json());
  row.emplace_back("TFLOP/s", Json());
  if (candidates > 0) {
    absl::Status failed;
    Stopwatch watch(backend.ops());
    KINORA_ASSIGN_OR_RETURN(const double seconds, watch.Median(settings.runs, [&] {
      const absl::Status status = products->Run(product, workspace, watch.stream());
      if (!status.ok()) failed = status;
    }));
    KINORA_RETURN_IF_ERROR(failed);
    const double flops = 2.0 * static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k);
    row[6].second = seconds * 1e3;
    row[7].second = flops / seconds / 1e12;
  }
  report.Add("cuBLASLt, bf16, the fastest of its proposals", row);
  return absl::OkStatus();
}

CudnnAttention ShapeOf(const AttentionShape& s) {
  const int64_t row_width = s.heads * s.width;
  const auto strides = [&](int64_t rows) {
    return HeadStrides{.batch = rows * row_width, .head = s.width, .row = row_width};
  };
  return {.batch = s.batch,
          .heads = s.heads,
          .kv_heads = s.heads,
          .queries = s.queries,
          .keys = s.keys,
          .head_width = s.width,
          .q = strides(s.queries),
          .k = strides(s.keys),
          .v = strides(s.keys),
          .out = strides(s.queries),
          .scale = 1.0f / std::sqrt(static_cast<float>(s.width))};
}

absl::StatusOr<double> TimePlan(const AttentionShape& s, const CudnnPlan& plan, int runs, Backend& backend) {
  Workbench bench(backend);
  const auto draw = [&](int64_t rows) { return bench.Random(DType::kBF16, {s.batch * rows, s.heads * s.width}); };
  const Tensor q = draw(s.queries), k = draw(s.keys), v = draw(s.keys), out = bench.Output(DType::kBF16, q.shape());
  const Tensor workspace = bench.Output(DType::kBF16, {plan.workspace_bytes() / 2 + 64});
  KINORA_RETURN_IF_ERROR(bench.status());
  void* const operands[] = {q.raw(), k.raw(), v.raw(), out.raw()};
  absl::Status failed;
  Stopwatch watch(backend.ops());
  KINORA_ASSIGN_OR_RETURN(const double seconds, watch.Median(runs, [&] {
    const absl::Status status = plan.Run(operands, workspace.raw(), watch.stream());
    if (!status.ok()) failed = status;
  }));
  KINORA_RETURN_IF_ERROR(failed);
  return seconds;
}

absl::Status ProbeAttention(const AttentionShape& s, const Settings& settings, Backend& backend, Cudnn& cudnn,
                            Report& report) {
  const auto begin = std::chrono::steady_clock::now();
  const auto plan = cudnn.Build(ShapeOf(s));
  const double build_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Json workspace, milliseconds, rate;
  if (plan.ok()) {
    KINORA_ASSIGN_OR_RETURN(const double seconds, TimePlan(s, **plan, settings.runs, backend));
    workspace = static_cast<double>((*plan)->workspace_bytes()) / 1e6;
    milliseconds = seconds * 1e3;
    const auto pairs = static_cast<double>(s.batch * s.heads * s.queries * s.keys);
    rate = 4.0 * pairs * static_cast<double>(s.width) / seconds / 1e12;
  }
  report.Add("cuDNN's attention, bf16", {{"attention", s.what},
                                         {"batch", s.batch},
                                         {"heads", s.heads},
                                         {"queries", s.queries},
                                         {"keys", s.keys},
                                         {"width", s.width},
                                         {"plan s", build_seconds},
                                         {"engine", plan.ok() ? (*plan)->engine() : ""},
                                         {"workspace MB", workspace},
                                         {"ms", milliseconds},
                                         {"TFLOP/s", rate},
                                         {"refused", plan.ok() ? "" : std::string(plan.status().message())}});
  return absl::OkStatus();
}

template <typename Shape>
std::vector<Shape> ShapesOf(bool small, absl::Span<const Shape> of_small, absl::Span<const Shape> of_device) {
  const absl::Span<const Shape> shapes = small ? of_small : of_device;
  return {shapes.begin(), shapes.end()};
}

}  // namespace

void CheckProbes(const Settings& settings, Report& report) {
  const auto backend = OpenBackend("cuda", {.threads = settings.threads});
  if (!backend.ok()) return report.NotAvailable(std::string(backend.status().message()));
  for (const ProductShape& shape : ShapesOf<ProductShape>(settings.small, kSmallProducts, kProducts)) {
    for (const char* epilogue : {"none", "bias", "bias, GELU"}) {
      const std::string name = Cat(shape.what, ", ", epilogue);
      if (report.TimeIsUp(name)) continue;
      const absl::Status status = ProbeProduct(shape, epilogue, settings, **backend, report);
      if (!status.ok()) report.Fail(name, status);
    }
  }
  const auto cudnn = OpenCudnn();
  if (!cudnn.ok()) return report.NotAvailable(std::string(cudnn.status().message()));
  for (const AttentionShape& shape : ShapesOf<AttentionShape>(settings.small, kSmallAttentions, kAttentions)) {
    if (report.TimeIsUp(shape.what)) continue;
    const absl::Status status = ProbeAttention(shape, settings, **backend, **cudnn, report);
    if (!status.ok()) report.Fail(shape.what, status);
  }
}

}  // namespace kinora
