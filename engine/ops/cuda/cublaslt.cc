#include "engine/ops/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_status.h"

namespace kinora {
namespace {

using cublaslt::Status;

constexpr int kCandidates = 8;    // proposals of the library's heuristic, to be measured
constexpr int kTimedRuns = 3;     // per candidate, after one that is not timed
constexpr int64_t kAligned = 16;  // bytes; no algorithm gains from more
constexpr char kElse[] =
    ": install the libraries of CUDA 13 (a toolkit, or the wheel nvidia-cublas) and name their folder in "
    "LD_LIBRARY_PATH, or use the cpu";

cudaDataType DataType(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

uint32_t AlignmentOf(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p) | kAligned;
  return static_cast<uint32_t>(address & (~address + 1));
}

// CHECK-fails if the product breaks the rules of Product.
void Check(const Product& p) {
  const DType in = p.a.dtype, out = p.d.dtype;
  KINORA_CHECK(in == p.b.dtype) << DTypeName(in) << " by " << DTypeName(p.b.dtype);
  KINORA_CHECK((in == DType::kF32 && out == DType::kF32) ||
               (in == DType::kBF16 && (out == DType::kBF16 || out == DType::kF32)))
      << DTypeName(in) << " into " << DTypeName(out);
  KINORA_CHECK(!p.d.transposed && !(p.gelu && p.add));
  KINORA_CHECK(p.a.stride >= (p.a.transposed ? p.m : p.k) && p.b.stride >= (p.b.transposed ? p.k : p.n) &&
               p.d.stride >= p.n)
      << "[" << p.m << ", " << p.k << "] by [" << p.k << ", " << p.n << "] with strides of " << p.a.stride << ", "
      << p.b.stride << ", " << p.d.stride;
}

ProductProblem ProblemOf(const Product& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .a_stride = p.a.stride,
          .b_stride = p.b.stride,
          .d_stride = p.d.stride,
          .a_batch = p.batch > 1 ? p.a.batch_stride : 0,
          .b_batch = p.batch > 1 ? p.b.batch_stride : 0,
          .d_batch = p.batch > 1 ? p.d.batch_stride : 0,
          .in = p.a.dtype,
          .out = p.d.dtype,
          .a_transposed = p.a.transposed,
          .b_transposed = p.b.transposed,
          .add = p.add,
          .bias = p.bias != nullptr,
          .gelu = p.gelu,
          .a_alignment = AlignmentOf(p.a.data),
          .b_alignment = AlignmentOf(p.b.data),
          .d_alignment = AlignmentOf(p.d.data)};
}

bool Capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

class Event {
 public:
  Event() { cudaEventCreateWithFlags(&event_, cudaEventDefault); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

// The library's descriptors of a problem, and its algorithm. The library's matrices are column-major, so it sees the
// product with rows and columns exchanged.
struct Products::Plan {
  explicit Plan(const cublaslt::Functions& functions) : lt(functions) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (desc != nullptr) lt.MatmulDescDestroy(desc);
    for (cublaslt::MatrixLayout layout : {left, right, result}) {
      if (layout != nullptr) lt.MatrixLayoutDestroy(layout);
    }
    if (preference != nullptr) lt.MatmulPreferenceDestroy(preference);
  }

  Status Describe(const ProductProblem& p);
  Status DescribeMatrix(DType dtype, int64_t rows, int64_t columns, int64_t stride, int64_t batch, int64_t batch_stride,
                        cublaslt::MatrixLayout* layout) const;
  Status DescribePreference(const ProductProblem& p, int64_t workspace_bytes);

  const cublaslt::Functions& lt;
  cublaslt::MatmulDesc desc = nullptr;
  cublaslt::MatrixLayout left = nullptr, right = nullptr, result = nullptr;  // b, a and d, column-major
  cublaslt::Preference preference = nullptr;
  std::vector<cublaslt::Algorithm> candidates;
  cublaslt::Algorithm algorithm{};
  bool chosen = false;  // by a measurement, or there is no choice
};

Status Products::Plan::DescribeMatrix(DType dtype, int64_t rows, int64_t columns, int64_t stride, int64_t batch,
                                      int64_t batch_stride, cublaslt::MatrixLayout* layout) const {
  const auto count = static_cast<int32_t>(batch);
  Status status = lt.MatrixLayoutCreate(layout, DataType(dtype), columns, rows, stride);
  if (batch == 1 || status != Status::kSuccess) return status;
  status = lt.MatrixLayoutSetAttribute(*layout, cublaslt::LayoutAttribute::kBatchCount, &count, sizeof count);
  if (status != Status::kSuccess) return status;
  return lt.MatrixLayoutSetAttribute(*layout, cublaslt::LayoutAttribute::kBatchStride, &batch_stride,
                                     sizeof batch_stride);
}

Status Products::Plan::Describe(const ProductProblem& p) {
  Status first = lt.MatmulDescCreate(&desc, cublaslt::ComputeType::k32F, CUDA_R_32F);
  const auto note = [&first](Status status) {
    if (first == Status::kSuccess) first = status;
  };
  const auto set = [&](cublaslt::DescAttribute attribute, auto value) {
    if (first == Status::kSuccess) note(lt.MatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  };
  const auto operation = [](bool transposed) {
    return transposed ? cublaslt::Operation::kTranspose : cublaslt::Operation::kNone;
  };
  set(cublaslt::DescAttribute::kTransA, operation(p.b_transposed));
  set(cublaslt::DescAttribute::kTransB, operation(p.a_transposed));
  if (p.bias || p.gelu) {
    const auto bits = (p.bias ? static_cast<uint32_t>(cublaslt::Epilogue::kBias) : 0) |
                      (p.gelu ? static_cast<uint32_t>(cublaslt::Epilogue::kGelu) : 0);
    set(cublaslt::DescAttribute::kEpilogue, bits);
  }
  if (p.bias) set(cublaslt::DescAttribute::kBiasType, static_cast<int32_t>(DataType(p.out)));
  const int64_t a_rows = p.a_transposed ? p.k : p.m, a_columns = p.a_transposed ? p.m : p.k;
  const int64_t b_rows = p.b_transposed ? p.n : p.k, b_columns = p.b_transposed ? p.k : p.n;
  note(DescribeMatrix(p.in, b_rows, b_columns, p.b_stride, p.batch, p.b_batch, &left));
  note(DescribeMatrix(p.in, a_rows, a_columns, p.a_stride, p.batch, p.a_batch, &right));
  note(DescribeMatrix(p.out, p.m, p.n, p.d_stride, p.batch, p.d_batch, &result));
  return first;
}

// Partial sums of a split depth stay float32: one rounding, at the end.
Status Products::Plan::DescribePreference(const ProductProblem& p, int64_t workspace_bytes) {
  using Attribute = cublaslt::PreferenceAttribute;
  Status status = lt.MatmulPreferenceCreate(&preference);
  const auto set = [&](Attribute attribute, auto value) {
    if (status == Status::kSuccess)
      status = lt.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  set(Attribute::kMaxWorkspaceBytes, static_cast<uint64_t>(workspace_bytes));
  set(Attribute::kReductionSchemes, static_cast<uint32_t>(cublaslt::kInComputeType));
  set(Attribute::kMinAlignmentA, p.b_alignment);
  set(Attribute::kMinAlignmentB, p.a_alignment);
  set(Attribute::kMinAlignmentC, p.d_alignment);
  set(Attribute::kMinAlignmentD, p.d_alignment);
  return status;
}

absl::StatusOr<std::unique_ptr<Products>> Products::Open(int64_t workspace_bytes, Options options) {
  std::unique_ptr<Products> products(new Products(workspace_bytes, std::move(options)));
  KINORA_ASSIGN_OR_RETURN(products->lt_, OpenCublasLt(products->options_.library));
  if (const Status status = products->lt_.Create(&products->handle_); status != Status::kSuccess)
    return products->Failed(status, "cublasLtCreate");
  const Options& o = products->options_;
  if (!o.tuning_file.empty()) {
    products->tuning_ = std::make_unique<ProductTuning>(
        o.tuning_file, absl::StrCat(o.device, " cublasLt ", products->lt_.GetVersion()));
  }
  return products;
}

Products::Products(int64_t workspace_bytes, Options options)
    : workspace_bytes_(workspace_bytes), options_(std::move(options)) {}

Products::~Products() {
  plans_.clear();
  if (handle_ != nullptr) lt_.Destroy(handle_);
}

absl::StatusOr<cublaslt::Functions> OpenCublasLt(const std::string& file) {
  const auto refuse = [&file](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat("device: cuda: ", file, " ", why, kElse));
  };
  // Never closed: CUDA's libraries do not support that while the process runs.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(absl::StrCat("cannot be opened (", dlerror(), ")"));
  cublaslt::Functions lt{};
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = dlsym(library, absl::StrCat("cublasLt", name).c_str());
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    if (symbol == nullptr && missing.empty()) missing = name;
  };
#define KINORA_FIND(name) find(#name, lt.name)
  KINORA_FIND(GetVersion);
  if (missing.empty() && lt.GetVersion() / 10000 != cublaslt::kMajorVersion) {
    return refuse(
        absl::StrCat("is version ", lt.GetVersion() / 10000, ", this program needs version ", cublaslt::kMajorVersion));
  }
  KINORA_FIND(Create), KINORA_FIND(Destroy), KINORA_FIND(GetStatusName);
  KINORA_FIND(MatmulDescCreate), KINORA_FIND(MatmulDescDestroy), KINORA_FIND(MatmulDescSetAttribute);
  KINORA_FIND(MatrixLayoutCreate), KINORA_FIND(MatrixLayoutDestroy), KINORA_FIND(MatrixLayoutSetAttribute);
  KINORA_FIND(MatmulPreferenceCreate), KINORA_FIND(MatmulPreferenceDestroy);
  KINORA_FIND(MatmulPreferenceSetAttribute);
  KINORA_FIND(MatmulAlgoGetHeuristic), KINORA_FIND(MatmulAlgoCheck), KINORA_FIND(Matmul);
#undef KINORA_FIND
  if (!missing.empty()) return refuse(absl::StrCat("has no function cublasLt", missing));
  return lt;
}

absl::Status Products::Failed(Status status, const char* what) const {
  const std::string message = absl::StrCat(what, ": ", lt_.GetStatusName(status));
  switch (status) {
    case Status::kAllocFailed:
      return absl::ResourceExhaustedError(message);
    case Status::kNotSupported:
    case Status::kArchMismatch:
      return absl::UnimplementedError(message);
    default: {
      const cudaError_t error = cudaGetLastError();  // may be more specific
      return error != cudaSuccess ? CudaStatus(error, message) : absl::InternalError(message);
    }
  }
}

absl::StatusOr<std::unique_ptr<Products::Plan>> Products::MakePlan(const Product& product,
                                                                   const Problem& problem) const {
  auto plan = std::make_unique<Plan>(lt_);
  Status status = plan->Describe(problem);
  if (status == Status::kSuccess && problem.bias) {  // its alignment matters
    status = lt_.MatmulDescSetAttribute(plan->desc, cublaslt::DescAttribute::kBiasPointer, &product.bias,
                                        sizeof product.bias);
  }
  if (status == Status::kSuccess) status = plan->DescribePreference(problem, workspace_bytes_);
  if (status != Status::kSuccess) return Failed(status, "a product's description");
  cublaslt::HeuristicResult results[kCandidates];
  int found = 0;
  status = lt_.MatmulAlgoGetHeuristic(handle_, plan->desc, plan->left, plan->right, plan->result, plan->result,
                                      plan->preference, kCandidates, results, &found);
  if (status != Status::kSuccess) return Failed(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < found; ++i) {
    if (results[i].state == Status::kSuccess) plan->candidates.push_back(results[i].algorithm);
  }
  if (plan->candidates.empty()) return Failed(Status::kNotSupported, "cublasLtMatmulAlgoGetHeuristic");
  plan->algorithm = plan->candidates.front();
  plan->chosen = plan->candidates.size() == 1 || tuning_ == nullptr || problem.add;
  if (plan->chosen) return plan;
  const std::optional<cublaslt::Algorithm> kept = tuning_->Find(problem);
  cublaslt::HeuristicResult check{};
  if (kept.has_value() &&
      lt_.MatmulAlgoCheck(handle_, plan->desc, plan->left, plan->right, plan->result, plan->result, &*kept, &check) ==
          Status::kSuccess &&
      check.workspace_bytes <= static_cast<size_t>(workspace_bytes_)) {
    plan->algorithm = *kept;
    plan->chosen = true;
  }
  return plan;
}

absl::StatusOr<Products::Plan*> Products::PlanOf(const Product& product) {
  Check(product);
  const Problem problem = ProblemOf(product);
  std::unique_ptr<Plan>& plan = plans_[problem];
  if (plan == nullptr) {
    auto made = MakePlan(product, problem);
    if (!made.ok()) {
      plans_.erase(problem);
      return absl::Status(made.status().code(), absl::StrCat(made.status().message(), " for ", problem.ToString()));
    }
    plan = *std::move(made);
  }
  return plan.get();
}

Status Products::Multiply(const Plan& plan, const cublaslt::Algorithm& algorithm, const Product& p,
                          const Buffer& workspace, cudaStream_t stream) const {
  const float beta = p.add ? 1.0f : 0.0f;
  if (p.bias != nullptr) {
    const Status status =
        lt_.MatmulDescSetAttribute(plan.desc, cublaslt::DescAttribute::kBiasPointer, &p.bias, sizeof p.bias);
    if (status != Status::kSuccess) return status;
  }
  return lt_.Matmul(handle_, plan.desc, &p.alpha, p.b.data, plan.left, p.a.data, plan.right, &beta, p.d.data,
                    plan.result, p.d.data, plan.result, &algorithm, workspace.data(), workspace.bytes(), stream);
}

// Every run computes the same result, so the last one's is valid.
absl::Status Products::Tune(Plan& plan, const Problem& problem, const Product& product, const Buffer& workspace,
                            cudaStream_t stream) {
  const Event begin, end;
  float best = std::numeric_limits<float>::infinity();
  for (const cublaslt::Algorithm& candidate : plan.candidates) {
    bool runs = Multiply(plan, candidate, product, workspace, stream) == Status::kSuccess;
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin.get(), stream), "a measurement"));
    for (int i = 0; runs && i < kTimedRuns; ++i)
      runs = Multiply(plan, candidate, product, workspace, stream) == Status::kSuccess;
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end.get(), stream), "a measurement"));
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end.get()), "a measurement"));
    float milliseconds = 0;
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "a measurement"));
    if (!runs || milliseconds >= best) continue;
    best = milliseconds;
    plan.algorithm = candidate;
  }
  plan.chosen = true;
  tuning_->Keep(problem, plan.algorithm);
  return absl::OkStatus();
}

absl::Status Products::Run(const Product& product, const Buffer& workspace, cudaStream_t stream) {
  KINORA_CHECK(workspace.bytes() >= workspace_bytes_) << workspace.bytes();
  if (product.m == 0 || product.n == 0 || product.batch == 0) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(Plan * plan, PlanOf(product));
  if (!plan->chosen && !Capturing(stream)) {
    KINORA_RETURN_IF_ERROR(Tune(*plan, ProblemOf(product), product, workspace, stream));
  }
  const Status status = Multiply(*plan, plan->algorithm, product, workspace, stream);
  return status == Status::kSuccess ? absl::OkStatus() : Failed(status, "cublasLtMatmul");
}

int Products::Candidates(const Product& product) {
  const absl::StatusOr<Plan*> plan = PlanOf(product);
  return plan.ok() ? static_cast<int>((*plan)->candidates.size()) : 0;
}

}  // namespace kinora
