// Part "questions": what only a device answers, and what later work depends on. It runs first.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/ops/cuda/cublaslt.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda_traits.h"
#include "kernels/copy_rows.h"
#include "kernels/early_launch.h"
#include "kernels/increment.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/workbench.h"

namespace kinora {
namespace {

using cublaslt::DescAttribute;
using cublaslt::Epilogue;
using cublaslt::Status;

// ---- Which products of FP8 does cuBLASLt have?

// From cublasLt.h, version 13. The engine does not use them yet.
constexpr auto kWeightScales = static_cast<DescAttribute>(17), kInputScales = static_cast<DescAttribute>(18),
               kResultScale = static_cast<DescAttribute>(20), kFastSums = static_cast<DescAttribute>(25),
               kWeightScaleMode = static_cast<DescAttribute>(31), kInputScaleMode = static_cast<DescAttribute>(32);
enum ScaleMode : int32_t { kOneScale = 0, kScalePerRow = 3, kScalePer128 = 4, kScalePer128x128 = 5 };

struct ProductForm {
  const char* what;
  cudaDataType in, out;
  ScaleMode weight, input;
  Epilogue epilogue;
  bool fast_sums;
};
constexpr cudaDataType kBf16 = CUDA_R_16BF, kFp8 = CUDA_R_8F_E4M3;
constexpr ProductForm kForms[] = {
    {"bf16", kBf16, kBf16, kOneScale, kOneScale, Epilogue::kDefault, false},
    {"bf16, bias", kBf16, kBf16, kOneScale, kOneScale, Epilogue::kBias, false},
    {"bf16, bias, GELU", kBf16, kBf16, kOneScale, kOneScale, Epilogue::kGeluBias, false},
    {"fp8, one scale", kFp8, kBf16, kOneScale, kOneScale, Epilogue::kDefault, false},
    {"fp8, one scale, fast sums", kFp8, kBf16, kOneScale, kOneScale, Epilogue::kDefault, true},
    {"fp8, one scale, bias, fast sums", kFp8, kBf16, kOneScale, kOneScale, Epilogue::kBias, true},
    {"fp8, one scale, bias, GELU, fast sums", kFp8, kBf16, kOneScale, kOneScale, Epilogue::kGeluBias, true},
    {"fp8 to fp8, one scale, bias, GELU, fast sums", kFp8, kFp8, kOneScale, kOneScale, Epilogue::kGeluBias, true},
    {"fp8, a scale per row", kFp8, kBf16, kScalePerRow, kScalePerRow, Epilogue::kDefault, false},
    {"fp8, a scale per row, fast sums", kFp8, kBf16, kScalePerRow, kScalePerRow, Epilogue::kDefault, true},
    {"fp8, a scale per row, bias, fast sums", kFp8, kBf16, kScalePerRow, kScalePerRow, Epilogue::kBias, true},
    {"fp8, a scale per row, bias, GELU, fast sums", kFp8, kBf16, kScalePerRow, kScalePerRow, Epilogue::kGeluBias, true},
    {"fp8, weights per 128x128, inputs per 128", kFp8, kBf16, kScalePer128x128, kScalePer128, Epilogue::kDefault,
     false},
    {"fp8, weights per 128x128, inputs per 128, bias", kFp8, kBf16, kScalePer128x128, kScalePer128, Epilogue::kBias,
     false},
    {"fp8, both per 128", kFp8, kBf16, kScalePer128, kScalePer128, Epilogue::kDefault, false}};

struct ProductSize {
  int64_t m, n, k;
};

// Memory for all forms. FP8 takes half of the bf16 values' memory; its values are their bytes.
struct Operands {
  Operands(const ProductSize& s, Backend& backend) : size(s), bench(backend) {
    x = bench.Random(DType::kBF16, {size.m, size.k});
    w = bench.Random(DType::kBF16, {size.n, size.k});
    y = bench.Output(DType::kBF16, {size.m, size.n});
    bias = bench.Random(DType::kBF16, {size.n});
    const int64_t most = std::max(size.m, size.n) * ((size.k + 127) / 128);  // that any mode reads
    scales = bench.Floats(std::vector<float>(static_cast<size_t>(most), 0.01f));
    workspace = bench.Bytes({kProductWorkspaceBytes});
  }
  const ProductSize size;
  Workbench bench;
  Tensor x, w, y, bias, scales, workspace;
};

// One form at one size: y [m, n] = x [m, k] · wᵀ [k, n], which the library sees as columns: yᵀ = w · xᵀ.
class FormProbe {
 public:
  FormProbe(const cublaslt::Functions& lt, const ProductForm& form, Operands& operands)
      : lt_(lt), form_(form), of_(operands), size_(operands.size), watch_(operands.bench.ops()) {}
  ~FormProbe() {
    if (desc_ != nullptr) lt_.MatmulDescDestroy(desc_);
    for (cublaslt::MatrixLayout layout : {w_layout_, x_layout_, c_layout_, y_layout_}) {
      if (layout != nullptr) lt_.MatrixLayoutDestroy(layout);
    }
    if (preference_ != nullptr) lt_.MatmulPreferenceDestroy(preference_);
    if (handle_ != nullptr) lt_.Destroy(handle_);
  }
  FormProbe(const FormProbe&) = delete;
  FormProbe& operator=(const FormProbe&) = delete;

  // Sets `found` to the number of algorithms. The status is the library's answer.
  Status Ask(int* found) {
    const auto create = [](Status so_far, const auto& next) { return so_far == Status::kSuccess ? next() : so_far; };
    Status status = lt_.Create(&handle_);
    status = create(status, [&] { return lt_.MatmulDescCreate(&desc_, cublaslt::ComputeType::k32F, CUDA_R_32F); });
    status = create(status, [&] { return lt_.MatrixLayoutCreate(&w_layout_, form_.in, size_.k, size_.n, size_.k); });
    status = create(status, [&] { return lt_.MatrixLayoutCreate(&x_layout_, form_.in, size_.k, size_.m, size_.k); });
    status = create(status, [&] { return lt_.MatrixLayoutCreate(&y_layout_, form_.out, size_.n, size_.m, size_.n); });
    // C, which is not added; the library has no FP8 for it.
    status = create(status, [&] { return lt_.MatrixLayoutCreate(&c_layout_, kBf16, size_.n, size_.m, size_.n); });
    status = create(status, [&] { return Describe(); });
    status = create(status, [&] { return lt_.MatmulPreferenceCreate(&preference_); });
    const auto workspace = static_cast<uint64_t>(kProductWorkspaceBytes);
    status = create(status, [&] {
      return lt_.MatmulPreferenceSetAttribute(preference_, cublaslt::PreferenceAttribute::kMaxWorkspaceBytes,
                                              &workspace, sizeof(workspace));
    });
    return create(status, [&] {
      return lt_.MatmulAlgoGetHeuristic(handle_, desc_, w_layout_, x_layout_, c_layout_, y_layout_, preference_, 1,
                                        &best_, found);
    });
  }

  // Returns the seconds of the first algorithm.
  absl::StatusOr<double> Time(int runs) {
    const float one = 1, zero = 0;
    Status status = Status::kSuccess;
    KINORA_ASSIGN_OR_RETURN(const double seconds, watch_.Median(runs, [&] {
      status = lt_.Matmul(handle_, desc_, &one, of_.w.raw(), w_layout_, of_.x.raw(), x_layout_, &zero, of_.y.raw(),
                          c_layout_, of_.y.raw(), y_layout_, &best_.algorithm, of_.workspace.raw(),
                          kProductWorkspaceBytes, watch_.stream());
    }));
    if (status != Status::kSuccess) return absl::InternalError(lt_.GetStatusName(status));
    return seconds;
  }

 private:
  Status Describe() {
    Status status = Status::kSuccess;
    const auto set = [&](DescAttribute attribute, auto value) {
      if (status == Status::kSuccess) status = lt_.MatmulDescSetAttribute(desc_, attribute, &value, sizeof(value));
    };
    set(DescAttribute::kTransA, static_cast<int32_t>(cublaslt::Operation::kTranspose));
    set(DescAttribute::kTransB, static_cast<int32_t>(cublaslt::Operation::kNone));
    set(DescAttribute::kEpilogue, static_cast<uint32_t>(form_.epilogue));
    if (form_.epilogue != Epilogue::kDefault) {
      set(DescAttribute::kBiasPointer, of_.bias.raw());
      set(DescAttribute::kBiasType, static_cast<int32_t>(kBf16));
    }
    if (form_.in != kFp8) return status;
    set(kWeightScaleMode, static_cast<int32_t>(form_.weight));
    set(kInputScaleMode, static_cast<int32_t>(form_.input));
    set(kWeightScales, of_.scales.raw());
    set(kInputScales, of_.scales.raw());
    set(kFastSums, static_cast<int8_t>(form_.fast_sums));
    if (form_.out == kFp8) set(kResultScale, of_.scales.raw());
    return status;
  }

  const cublaslt::Functions& lt_;
  const ProductForm& form_;
  const Operands& of_;
  const ProductSize& size_;
  Stopwatch watch_;
  cublaslt::Handle handle_ = nullptr;
  cublaslt::MatmulDesc desc_ = nullptr;
  cublaslt::MatrixLayout w_layout_ = nullptr, x_layout_ = nullptr, c_layout_ = nullptr, y_layout_ = nullptr;
  cublaslt::Preference preference_ = nullptr;
  cublaslt::HeuristicResult best_{};
};

absl::Status AskForm(const cublaslt::Functions& lt, const ProductForm& form, int runs, Operands& operands,
                     Report& report) {
  const ProductSize& size = operands.size;
  FormProbe probe(lt, form, operands);
  int found = 0;
  const Status answer = probe.Ask(&found);
  Json milliseconds, rate;
  if (answer == Status::kSuccess && found > 0) {
    KINORA_ASSIGN_OR_RETURN(const double seconds, probe.Time(runs));
    milliseconds = seconds * 1e3;
    rate = 2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k) / seconds / 1e12;
  }
  report.Add("cuBLASLt, scales and epilogues", {{"form", form.what},
                                                {"exists", found > 0 ? "yes" : "no"},
                                                {"answer", lt.GetStatusName(answer)},
                                                {"ms", milliseconds},
                                                {"TFLOP/s", rate}});
  return absl::OkStatus();
}

void AskForms(const cublaslt::Functions& lt, const Settings& settings, Backend& backend, Report& report) {
  Operands operands(settings.small ? ProductSize{128, 128, 128} : ProductSize{12288, 12288, 4096}, backend);
  if (!operands.bench.status().ok()) return report.Fail("the operands of products", operands.bench.status());
  for (const ProductForm& form : kForms) {
    if (report.TimeIsUp(form.what)) continue;
    const absl::Status status = AskForm(lt, form, settings.runs, operands, report);
    if (!status.ok()) report.Fail(form.what, status);
  }
}

// ---- Are cuDNN's Hopper convolutions faster than those that it compiles, and do they add in place?

struct ConvolutionForm {
  const char* what;
  DType out;
  bool bias, adds;
};
constexpr ConvolutionForm kConvolutions[] = {{"bias", DType::kBF16, true, false},
                                             {"bias, added", DType::kBF16, true, true},
                                             {"added", DType::kBF16, false, true},
                                             {"bias, float32", DType::kF32, true, false}};

CudnnConvolution ShapeOf(const ConvolutionForm& form, bool small) {
  const ConvAxis side{.kernel = 3, .before = 1, .after = 1};
  const int64_t channels = small ? 16 : 512;
  return {.out_dtype = form.out,
          .frames = small ? 4 : 18,
          .rows = small ? 4 : 32,
          .columns = small ? 8 : 48,
          .in_channels = channels,
          .out_channels = channels,
          .x_stride = channels,
          .filter_stride = 27 * channels,
          .out_stride = channels,
          .time = {.kernel = 3},
          .height = side,
          .width = side,
          .bias = form.bias,
          .accumulate = form.adds};
}

// Operands of one convolution, and its result.
class ConvolutionProbe {
 public:
  ConvolutionProbe(const CudnnConvolution& shape, Backend& backend)
      : shape_(shape), bench_(backend), backend_(backend) {
    const int64_t pixels = shape.rows * shape.columns, taps = 27 * shape.in_channels;
    x_ = bench_.Random(DType::kBF16, {shape.frames * pixels, shape.in_channels});
    filter_ = bench_.Random(DType::kBF16, {shape.out_channels, taps}, 1.0f / std::sqrt(static_cast<float>(taps)));
    bias_ = bench_.Random(shape.out_dtype, {shape.out_channels});
    before_ = bench_.Random(shape.out_dtype, {(shape.frames - 2) * pixels, shape.out_channels});
    out_ = bench_.Output(shape.out_dtype, before_.shape());
    workspace_ = bench_.Bytes({kProductWorkspaceBytes});
  }

  // Runs the plan once on the contents `before` and returns the result.
  absl::StatusOr<std::vector<float>> ResultOf(const CudnnPlan& plan) {
    KINORA_RETURN_IF_ERROR(bench_.status());
    backend_.ops().stream().Copy(before_, out_);
    Stopwatch watch(backend_.ops());
    KINORA_RETURN_IF_ERROR(Run(plan, watch.stream()));
    return bench_.Read(out_);
  }
  absl::StatusOr<std::vector<float>> Before() { return bench_.Read(before_); }
  absl::StatusOr<double> Time(const CudnnPlan& plan, int runs) {
    Stopwatch watch(backend_.ops());
    absl::Status failed;
    KINORA_ASSIGN_OR_RETURN(const double seconds,
                            watch.Median(runs, [&] { failed.Update(Run(plan, watch.stream())); }));
    KINORA_RETURN_IF_ERROR(failed);
    return seconds;
  }
  double flops() const {
    return 2.0 * 27 * static_cast<double>(out_.elements()) * static_cast<double>(shape_.in_channels);
  }

 private:
  absl::Status Run(const CudnnPlan& plan, cudaStream_t stream) {
    void* const operands[] = {x_.raw(), filter_.raw(), out_.raw(), bias_.raw()};
    return plan.Run(absl::MakeConstSpan(operands, shape_.bias ? 4 : 3), workspace_.raw(), stream);
  }

  const CudnnConvolution shape_;
  Workbench bench_;
  Backend& backend_;
  Tensor x_, filter_, bias_, before_, out_, workspace_;
};

// Returns ‖got − (alone + before)‖ / ‖alone + before‖.
double ErrorOfSum(const std::vector<float>& got, const std::vector<float>& alone, const std::vector<float>& before) {
  double wrong = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double sum = static_cast<double>(alone[i]) + static_cast<double>(before[i]);
    wrong += (got[i] - sum) * (got[i] - sum);
    all += sum * sum;
  }
  return std::sqrt(wrong / all);
}

absl::Status AskConvolution(const ConvolutionForm& form, const Settings& settings, Backend& backend, Cudnn& cudnn,
                            Report& report) {
  constexpr double kMostError = 2e-2;
  const CudnnConvolution shape = ShapeOf(form, settings.small);
  const auto plan = cudnn.Build(shape);
  Json error, milliseconds, rate;
  if (plan.ok()) {
    ConvolutionProbe probe(shape, backend);
    if (form.adds) {
      CudnnConvolution without = shape;
      without.accumulate = false;
      KINORA_ASSIGN_OR_RETURN(const auto alone_plan, cudnn.Build(without));
      KINORA_ASSIGN_OR_RETURN(const std::vector<float> alone, probe.ResultOf(*alone_plan));
      KINORA_ASSIGN_OR_RETURN(const std::vector<float> before, probe.Before());
      KINORA_ASSIGN_OR_RETURN(const std::vector<float> got, probe.ResultOf(**plan));
      error = ErrorOfSum(got, alone, before);
      if (!(error.get<double>() <= kMostError)) report.Fail(Cat(form.what, ": it does not add in place"));
    }
    KINORA_ASSIGN_OR_RETURN(const double seconds, probe.Time(**plan, settings.runs));
    milliseconds = seconds * 1e3;
    rate = probe.flops() / seconds / 1e12;
  }
  report.Add("cuDNN, convolutions", {{"form", form.what},
                                     {"engine", plan.ok() ? (*plan)->engine() : ""},
                                     {"error of the sum", error},
                                     {"ms", milliseconds},
                                     {"TFLOP/s", rate},
                                     {"refused", plan.ok() ? "" : std::string(plan.status().message())}});
  return absl::OkStatus();
}

// ---- Does a kernel that is launched early behind a copy, or behind the join of a branch, see what it must?

enum class Behind : uint8_t { kKernel, kCopy, kJoin };

// Writes `from` to `to` by a kernel, by a copy, or by a copy on a branch; then a kernel copies `to` to `out`.
class LaunchProbe {
 public:
  LaunchProbe(Behind behind, bool small, Backend& backend) : behind_(behind), bench_(backend), watch_(backend.ops()) {
    const Shape shape = {small ? 64 : 1 << 14, 1024};
    from_ = bench_.Random(DType::kF32, shape);
    to_ = bench_.Output(DType::kF32, shape);
    out_ = bench_.Output(DType::kF32, shape);
    counter_ = bench_.Indices({1}, 1);
    cudaStreamCreateWithFlags(&branch_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&passed_, cudaEventDisableTiming);
  }
  ~LaunchProbe() {
    cudaEventDestroy(passed_);
    cudaStreamDestroy(branch_);
  }
  LaunchProbe(const LaunchProbe&) = delete;
  LaunchProbe& operator=(const LaunchProbe&) = delete;

  // Returns the seconds of one pass in a graph of ten.
  absl::StatusOr<double> Time(int runs) {
    KINORA_RETURN_IF_ERROR(bench_.status());
    absl::Status failed;
    KINORA_ASSIGN_OR_RETURN(const double seconds, watch_.MedianOfGraph(runs, 10, [&] {
      failed.Update(CudaStatus(Enqueue(watch_.stream()), "a launch"));
    }));
    KINORA_RETURN_IF_ERROR(failed);
    return seconds;
  }
  absl::StatusOr<bool> IsRight() {
    KINORA_ASSIGN_OR_RETURN(const std::vector<float> wanted, bench_.Read(from_));
    KINORA_ASSIGN_OR_RETURN(const std::vector<float> got, bench_.Read(out_));
    return got == wanted;
  }

 private:
  static kernels::Rows View(const Tensor& t) { return {t.raw(), t.row_stride(), kernels::Type::kF32}; }
  cudaError_t CopyByKernel(const Tensor& from, const Tensor& to, cudaStream_t stream) {
    return kernels::LaunchCopyRows(View(from), View(to), from.rows(), from.width(), stream);
  }
  cudaError_t CopyByRuntime(cudaStream_t stream) {
    return cudaMemcpyAsync(to_.raw(), from_.raw(), from_.bytes(), cudaMemcpyDeviceToDevice, stream);
  }
  cudaError_t CopyOnBranch(cudaStream_t stream) {
    cudaError_t error = cudaEventRecord(passed_, stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(branch_, passed_, 0);
    if (error == cudaSuccess) error = CopyByRuntime(branch_);
    if (error == cudaSuccess) error = kernels::LaunchIncrement(counter_.data<int32_t>(), 1, stream);
    if (error == cudaSuccess) error = cudaEventRecord(passed_, branch_);
    return error == cudaSuccess ? cudaStreamWaitEvent(stream, passed_, 0) : error;
  }
  cudaError_t Enqueue(cudaStream_t stream) {
    cudaError_t error = cudaMemsetAsync(to_.raw(), 0, to_.bytes(), stream);  // so that a kernel that is too early shows
    if (error == cudaSuccess) {
      error = behind_ == Behind::kKernel ? CopyByKernel(from_, to_, stream)
              : behind_ == Behind::kCopy ? CopyByRuntime(stream)
                                         : CopyOnBranch(stream);
    }
    return error == cudaSuccess ? CopyByKernel(to_, out_, stream) : error;
  }

  const Behind behind_;
  Workbench bench_;
  Stopwatch watch_;
  Tensor from_, to_, out_, counter_;
  cudaStream_t branch_ = nullptr;
  cudaEvent_t passed_ = nullptr;
};

void AskLaunch(const char* what, Behind behind, const Settings& settings, Backend& backend, Report& report) {
  const bool allowed = kernels::early_launch_allowed;
  const absl::Cleanup restore = [allowed] { kernels::early_launch_allowed = allowed; };
  for (const bool early : {false, true}) {
    kernels::early_launch_allowed = early;
    LaunchProbe probe(behind, settings.small, backend);
    const absl::StatusOr<double> seconds = probe.Time(settings.runs);
    const absl::StatusOr<bool> right = seconds.ok() ? probe.IsRight() : seconds.status();
    if (!right.ok()) report.Fail(what, right.status());
    if (right.ok() && !*right) report.Fail(Cat(what, ": the kernel began too early"));
    report.Add("early launch", {{"behind", what},
                                {"early", early ? "yes" : "no"},
                                {"result", !right.ok() ? "none"
                                           : *right    ? "right"
                                                       : "wrong"},
                                {"us", seconds.ok() ? Json(*seconds * 1e6) : Json()}});
  }
}

}  // namespace

void CheckQuestions(const Settings& settings, Report& report) {
  const auto backend = OpenBackend("cuda", {.threads = settings.threads});
  if (!backend.ok()) return report.NotAvailable(std::string(backend.status().message()));
  if (settings.simulated) {
    report.Note("the simulation cannot answer: it has no FP8 and no scales, no engines of cuDNN, and no early launch");
  }
  const auto lt = OpenCublasLt(cublaslt::kLibrary);
  if (!lt.ok()) return report.NotAvailable(std::string(lt.status().message()));
  AskForms(*lt, settings, **backend, report);
  const auto cudnn = OpenCudnn();
  if (!cudnn.ok()) return report.NotAvailable(std::string(cudnn.status().message()));
  for (const ConvolutionForm& form : kConvolutions) {
    if (report.TimeIsUp(form.what)) continue;
    const absl::Status status = AskConvolution(form, settings, **backend, **cudnn, report);
    if (!status.ok()) report.Fail(form.what, status);
  }
  for (const auto& [what, behind] :
       {std::pair{"a kernel", Behind::kKernel}, {"a copy", Behind::kCopy}, {"a join", Behind::kJoin}}) {
    if (!report.TimeIsUp(what)) AskLaunch(what, behind, settings, **backend, report);
  }
}

}  // namespace kinora
