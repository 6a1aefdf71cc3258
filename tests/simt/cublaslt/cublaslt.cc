// Test only: a libcublasLt.so.13 with the C interface of the real one, for the simulated device. It computes from
// descriptors alone and rejects what the real library's documentation forbids (problem.h, and Runnable below).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/simt/cublaslt/control.h"
#include "tests/simt/cublaslt/problem.h"
#include "tests/simt/host_gemm.h"
#include "tests/simt/library.h"

using namespace kinora::cublaslt;  // NOLINT(google-build-using-namespace)
using kinora::simt::Access;

namespace {

constexpr uint64_t kWorkspaceEach = 1 << 20;
constexpr uint64_t kWorkspaceAlignment = 16;
constexpr int64_t kRowsAtOnce = 96;

std::atomic<int> offered = 1, alive = 0;
std::atomic<size_t> version = 130100;

// Contents of an Algorithm's words.
enum Word : uint8_t { kFingerprint, kNumber, kWorkspace, kAlignmentA, kAlignmentB, kAlignmentC, kAlignmentD };

template <typename T>
Status Make(T** out, T value) {
  if (out == nullptr) return Status::kInvalidValue;
  *out = new T(std::move(value));
  ++alive;
  return Status::kSuccess;
}

template <typename T>
Status End(T* object, Kind kind) {
  if (object == nullptr || object->kind != kind) return Status::kInvalidValue;
  object->kind = Kind::kDead;
  static std::mutex mutex;
  static auto* const ended = new std::vector<std::unique_ptr<T>>;  // kept so that later uses are detected
  const std::lock_guard<std::mutex> lock(mutex);
  ended->emplace_back(object);
  --alive;
  return Status::kSuccess;
}

template <typename T>
Status Set(T& attribute, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return Status::kInvalidValue;
  std::memcpy(&attribute, value, sizeof(T));
  return Status::kSuccess;
}

bool Aligned(const void* p, uint64_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

struct Call {
  MatmulDescOpaque desc;
  MatrixLayoutOpaque a_layout, b_layout, c_layout, d_layout;
  const char *a, *b, *c;
  char* d;
  float alpha, beta;
  char* workspace;
  int64_t workspace_bytes;
};

bool Live(HandleOpaque* handle) { return handle != nullptr && handle->kind == Kind::kHandle; }

Status Runnable(const Problem& problem, const Call& call, const Algorithm* algorithm, size_t workspace_bytes) {
  if (const Status status = Validate(problem); status != Status::kSuccess) return status;
  const uint64_t element_a = problem.a->element(), element_d = problem.d->element();
  if (call.a == nullptr || call.b == nullptr || call.d == nullptr) return Status::kInvalidValue;
  if (call.beta != 0 && call.c == nullptr) return Status::kInvalidValue;
  if (!Aligned(call.a, element_a) || !Aligned(call.b, element_a) || !Aligned(call.d, element_d)) {
    return Status::kInvalidValue;
  }
  if (problem.has_bias() && call.desc.bias == nullptr) return Status::kInvalidValue;
  if (call.d == call.a || call.d == call.b) return Status::kInvalidValue;
  if (call.d == call.c && problem.c->ld != problem.d->ld) return Status::kInvalidValue;
  if (algorithm == nullptr) return Status::kSuccess;
  if (algorithm->data[kFingerprint] != Fingerprint(problem)) return Status::kInvalidValue;
  if (algorithm->data[kWorkspace] > workspace_bytes) return Status::kInvalidValue;
  if (algorithm->data[kWorkspace] > 0 && (call.workspace == nullptr || !Aligned(call.workspace, kWorkspaceAlignment))) {
    return Status::kInvalidValue;
  }
  const bool aligned = Aligned(call.a, algorithm->data[kAlignmentA]) && Aligned(call.b, algorithm->data[kAlignmentB]) &&
                       Aligned(call.c, algorithm->data[kAlignmentC]) && Aligned(call.d, algorithm->data[kAlignmentD]);
  return aligned ? Status::kSuccess : Status::kNotSupported;
}

void Touch(const MatrixLayoutOpaque& l, const char* data, bool written, std::vector<Access>& accesses) {
  const int64_t matrices = l.batch_stride == 0 ? 1 : l.batch;
  for (int64_t i = 0; i < matrices; ++i) {
    accesses.push_back({.begin = data + i * l.batch_stride * l.element(),
                        .bytes = l.rows * l.element(),
                        .rows = l.columns,
                        .stride = l.ld * l.element(),
                        .written = written});
  }
}

std::vector<Access> AccessesOf(const Call& call) {
  std::vector<Access> accesses;
  const Problem problem{&call.desc, &call.a_layout, &call.b_layout, &call.c_layout, &call.d_layout};
  Touch(call.a_layout, call.a, false, accesses);
  Touch(call.b_layout, call.b, false, accesses);
  if (call.beta != 0) Touch(call.c_layout, call.c, false, accesses);
  if (problem.has_bias()) {
    accesses.push_back({.begin = call.desc.bias, .bytes = problem.m() * call.d_layout.element()});
  }
  if (call.workspace_bytes > 0) {
    accesses.push_back({.begin = call.workspace, .bytes = call.workspace_bytes, .written = true});
  }
  Touch(call.d_layout, call.d, true, accesses);
  return accesses;
}

float Read(const void* data, cudaDataType type, int64_t i) {
  return type == CUDA_R_16BF ? kinora::simt::FromBf16(static_cast<const uint16_t*>(data)[i])
                             : static_cast<const float*>(data)[i];
}

float GeluTanh(float x) { return 0.5f * x * (1.0f + std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x))); }

// Stores column `column` of D from its sums.
void StoreColumn(const Call& call, const Problem& problem, const float* sums, int64_t batch, int64_t column) {
  const auto column_of = [batch, column](auto* matrix, const auto& layout) {
    return matrix + (batch * layout.batch_stride + column * layout.ld) * layout.element();
  };
  const char* const c = call.beta == 0 ? nullptr : column_of(call.c, call.c_layout);  // C may be missing then
  char* const d = column_of(call.d, call.d_layout);
  for (int64_t i = 0; i < problem.m(); ++i) {
    float v = call.alpha * sums[i];
    if (call.beta != 0) v += call.beta * Read(c, call.c_layout.type, i);
    if (problem.has_bias()) v += Read(call.desc.bias, call.d_layout.type, i);
    if (problem.has_gelu()) v = GeluTanh(v);
    if (call.d_layout.type == CUDA_R_16BF) {
      reinterpret_cast<uint16_t*>(d)[i] = kinora::simt::ToBf16(v);
    } else {
      reinterpret_cast<float*>(d)[i] = v;
    }
  }
}

// Computes the transposed product: its rows are columns of D.
void Compute(const Call& call) {
  const Problem problem{&call.desc, &call.a_layout, &call.b_layout, &call.c_layout, &call.d_layout};
  const MatrixLayoutOpaque &a = call.a_layout, &b = call.b_layout;
  const bool a_flipped = call.desc.a == Operation::kTranspose, b_flipped = call.desc.b == Operation::kTranspose;
  std::vector<float> sums(kRowsAtOnce * problem.m());
  for (int64_t batch = 0; batch < call.d_layout.batch; ++batch) {
    const kinora::simt::HostMatrix right{.data = call.a + batch * a.batch_stride * a.element(),
                                         .bf16 = a.type == CUDA_R_16BF,
                                         .row = a_flipped ? 1 : a.ld,
                                         .column = a_flipped ? a.ld : 1};
    for (int64_t column = 0; column < problem.n(); column += kRowsAtOnce) {
      const int64_t columns = std::min(kRowsAtOnce, problem.n() - column);
      const int64_t first = b_flipped ? column : column * b.ld;
      const kinora::simt::HostMatrix left{.data = call.b + (batch * b.batch_stride + first) * b.element(),
                                          .bf16 = b.type == CUDA_R_16BF,
                                          .row = b_flipped ? 1 : b.ld,
                                          .column = b_flipped ? b.ld : 1};
      kinora::simt::HostGemm(columns, problem.m(), problem.k(), left, right, sums.data(), problem.m());
      for (int64_t i = 0; i < columns; ++i) {
        StoreColumn(call, problem, sums.data() + i * problem.m(), batch, column + i);
      }
    }
  }
}

}  // namespace

void kinora_cublaslt_offer(int algorithms) { offered = algorithms; }
void kinora_cublaslt_pretend(unsigned long value) { version = value; }
int kinora_cublaslt_alive() { return alive; }

extern "C" {

Status cublasLtCreate(Handle* handle) { return Make(handle, HandleOpaque{}); }
Status cublasLtDestroy(Handle handle) {
  return End(handle, Kind::kHandle) == Status::kSuccess ? Status::kSuccess : Status::kNotInitialized;
}
size_t cublasLtGetVersion() { return version; }
const char* cublasLtGetStatusName(Status status) {
  switch (status) {
    case Status::kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case Status::kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case Status::kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case Status::kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case Status::kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

Status cublasLtMatmulDescCreate(MatmulDesc* desc, ComputeType compute, cudaDataType scale) {
  return Make(desc, MatmulDescOpaque{.compute = compute, .scale = scale});
}
Status cublasLtMatmulDescDestroy(MatmulDesc desc) { return End(desc, Kind::kDesc); }
Status cublasLtMatmulDescSetAttribute(MatmulDesc desc, DescAttribute attribute, const void* value, size_t bytes) {
  if (desc == nullptr || desc->kind != Kind::kDesc) return Status::kInvalidValue;
  switch (attribute) {
    case DescAttribute::kTransA:
      return Set(desc->a, value, bytes);
    case DescAttribute::kTransB:
      return Set(desc->b, value, bytes);
    case DescAttribute::kEpilogue:
      return Set(desc->epilogue, value, bytes);
    case DescAttribute::kBiasPointer:
      return Set(desc->bias, value, bytes);
    case DescAttribute::kBiasType:
      return Set(desc->bias_type, value, bytes);
  }
  return Status::kInvalidValue;
}

Status cublasLtMatrixLayoutCreate(MatrixLayout* layout, cudaDataType type, uint64_t rows, uint64_t columns,
                                  int64_t ld) {
  return Make(
      layout,
      MatrixLayoutOpaque{
          .type = type, .rows = static_cast<int64_t>(rows), .columns = static_cast<int64_t>(columns), .ld = ld});
}
Status cublasLtMatrixLayoutDestroy(MatrixLayout layout) { return End(layout, Kind::kLayout); }
Status cublasLtMatrixLayoutSetAttribute(MatrixLayout layout, LayoutAttribute attribute, const void* value,
                                        size_t bytes) {
  if (layout == nullptr || layout->kind != Kind::kLayout) return Status::kInvalidValue;
  switch (attribute) {
    case LayoutAttribute::kBatchCount:
      return Set(layout->batch, value, bytes);
    case LayoutAttribute::kBatchStride:
      return Set(layout->batch_stride, value, bytes);
  }
  return Status::kInvalidValue;
}

Status cublasLtMatmulPreferenceCreate(Preference* preference) { return Make(preference, PreferenceOpaque{}); }
Status cublasLtMatmulPreferenceDestroy(Preference preference) { return End(preference, Kind::kPreference); }
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute, const void* value,
                                            size_t bytes) {
  if (preference == nullptr || preference->kind != Kind::kPreference) return Status::kInvalidValue;
  switch (attribute) {
    case PreferenceAttribute::kMaxWorkspaceBytes:
      return Set(preference->workspace, value, bytes);
    case PreferenceAttribute::kReductionSchemes:
      return Set(preference->schemes, value, bytes);
    case PreferenceAttribute::kMinAlignmentA:
    case PreferenceAttribute::kMinAlignmentB:
    case PreferenceAttribute::kMinAlignmentC:
    case PreferenceAttribute::kMinAlignmentD:
      return Set(preference->alignment[static_cast<int>(attribute) - 5], value, bytes);
  }
  return Status::kInvalidValue;
}

Status cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                      MatrixLayout d, Preference preference, int wanted, HeuristicResult* results,
                                      int* found) {
  if (!Live(handle)) return Status::kNotInitialized;
  if (wanted <= 0 || results == nullptr || found == nullptr) return Status::kInvalidValue;
  if (preference == nullptr || preference->kind != Kind::kPreference) return Status::kInvalidValue;
  *found = 0;
  const Problem problem{desc, a, b, c, d};
  if (const Status status = Validate(problem); status != Status::kSuccess) return status;
  const uint32_t* const aligned = preference->alignment;
  for (uint64_t i = 0; i < static_cast<uint64_t>(std::min(wanted, offered.load())); ++i) {
    if (i * kWorkspaceEach > preference->workspace) break;
    results[(*found)++] = {
        .algorithm = {{Fingerprint(problem), i, i * kWorkspaceEach, aligned[0], aligned[1], aligned[2], aligned[3]}},
        .workspace_bytes = i * kWorkspaceEach,
        .state = Status::kSuccess,
        .waves = 1.0f,
        .reserved = {}};
  }
  return *found > 0 ? Status::kSuccess : Status::kNotSupported;
}

Status cublasLtMatmulAlgoCheck(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                               MatrixLayout d, const Algorithm* algorithm, HeuristicResult* result) {
  if (!Live(handle)) return Status::kNotInitialized;
  if (algorithm == nullptr || result == nullptr) return Status::kInvalidValue;
  const Problem problem{desc, a, b, c, d};
  if (const Status status = Validate(problem); status != Status::kSuccess) return status;
  if (algorithm->data[kFingerprint] != Fingerprint(problem)) return Status::kInvalidValue;
  result->workspace_bytes = algorithm->data[kWorkspace];
  result->state = Status::kSuccess;
  result->waves = 1.0f;
  return Status::kSuccess;
}

Status cublasLtMatmul(Handle handle, MatmulDesc desc, const void* alpha, const void* a, MatrixLayout a_layout,
                      const void* b, MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout,
                      void* d, MatrixLayout d_layout, const Algorithm* algorithm, void* workspace,
                      size_t workspace_bytes, cudaStream_t stream) {
  if (!Live(handle)) return Status::kNotInitialized;
  const Problem problem{desc, a_layout, b_layout, c_layout, d_layout};
  if (alpha == nullptr || beta == nullptr) return Status::kInvalidValue;
  if (const Status status = Validate(problem); status != Status::kSuccess) return status;
  Call call{.desc = *desc,
            .a_layout = *a_layout,
            .b_layout = *b_layout,
            .c_layout = *c_layout,
            .d_layout = *d_layout,
            .a = static_cast<const char*>(a),
            .b = static_cast<const char*>(b),
            .c = static_cast<const char*>(c),
            .d = static_cast<char*>(d),
            .alpha = *static_cast<const float*>(alpha),
            .beta = *static_cast<const float*>(beta),
            .workspace = static_cast<char*>(workspace),
            .workspace_bytes = algorithm == nullptr ? 0 : static_cast<int64_t>(algorithm->data[kWorkspace])};
  if (const Status status = Runnable(problem, call, algorithm, workspace_bytes); status != Status::kSuccess) {
    return status;
  }
  std::vector<Access> accesses = AccessesOf(call);
  const cudaError_t error =
      kinora::simt::EnqueueLibrary(stream, "cublasLtMatmul", std::move(accesses), [call] { Compute(call); });
  return error == cudaSuccess ? Status::kSuccess : Status::kExecutionFailed;
}

}  // extern "C"

// Checks that the engine's function types equal the definitions here.
#define KINORA_SAME(name) static_assert(std::is_same_v<decltype(&cublasLt##name), decltype(Functions::name)>)
KINORA_SAME(Create);
KINORA_SAME(Destroy);
KINORA_SAME(GetVersion);
KINORA_SAME(GetStatusName);
KINORA_SAME(MatmulDescCreate);
KINORA_SAME(MatmulDescDestroy);
KINORA_SAME(MatmulDescSetAttribute);
KINORA_SAME(MatrixLayoutCreate);
KINORA_SAME(MatrixLayoutDestroy);
KINORA_SAME(MatrixLayoutSetAttribute);
KINORA_SAME(MatmulPreferenceCreate);
KINORA_SAME(MatmulPreferenceDestroy);
KINORA_SAME(MatmulPreferenceSetAttribute);
KINORA_SAME(MatmulAlgoGetHeuristic);
KINORA_SAME(MatmulAlgoCheck);
KINORA_SAME(Matmul);
#undef KINORA_SAME
