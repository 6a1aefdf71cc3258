// Products of matrices on the device by cuBLASLt, which is opened when the backend is.
//
//   Product p{.m = rows, .n = out, .k = in,
//             .a = {x, DType::kBF16, in}, .b = {w, DType::kBF16, in, /*transposed=*/true}, .d = {y, DType::kBF16,
//             out}};
//   stream.Enqueue("Matmul", x, [&](cudaStream_t s) { return products.Run(p, workspace, s); });
#ifndef KINORA_ENGINE_OPS_CUDA_CUBLASLT_H_
#define KINORA_ENGINE_OPS_CUDA_CUBLASLT_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ops/cuda/cublaslt_abi.h"
#include "engine/ops/cuda/product_tuning.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// As dlopen finds `file`. FailedPrecondition: it is missing, incomplete or of another major version; the sentence says
// what to do.
absl::StatusOr<cublaslt::Functions> OpenCublasLt(const std::string& file);

// A matrix in device memory, row after row.
struct Operand {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;        // elements from one row to the next
  bool transposed = false;   // stored as columns by rows; never of d
  int64_t batch_stride = 0;  // elements from one matrix of the batch to the next; 0 in a or b: all use the same
};

// d[m, n] = activation(alpha · a[m, k] · b[k, n] + bias) (+ d), for each of the batch. Float32 sums; a and b both f32
// (true float32, no TF32) with d f32, or both bf16 with d bf16 or f32. No alignment is needed beyond the elements'; 16
// bytes of addresses, strides and widths make it fast.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Operand a, b, d;
  int batch = 1;
  float alpha = 1.0f;
  bool add = false;            // to d; without an activation only
  const void* bias = nullptr;  // [n] of d's dtype
  bool gelu = false;           // tanh form, after the bias
};

class Products {
 public:
  struct Options {
    std::string library = cublaslt::kLibrary;  // as dlopen finds it
    std::string tuning_file;                   // "": nothing is measured or kept
    std::string device;                        // a name for it and its driver, in that file
  };
  // On the current device, for workspaces of that size. FailedPrecondition: as OpenCublasLt.
  static absl::StatusOr<std::unique_ptr<Products>> Open(int64_t workspace_bytes, Options options);
  ~Products();

  // Enqueues it. The first time that a problem is met outside of a capture, candidates are timed on the stream (and
  // waited for) unless it adds to d. Unimplemented: the library has no algorithm for it. CHECK-fails on what Product
  // does not allow. workspace: what no other stream uses.
  absl::Status Run(const Product& product, const Buffer& workspace, cudaStream_t stream);
  // Whether the library has an algorithm for it; looks at no contents.
  bool Supports(const Product& product) { return Candidates(product) > 0; }
  // How many it proposes, at most eight.
  int Candidates(const Product& product);

 private:
  struct Plan;
  using Problem = ProductProblem;

  Products(int64_t workspace_bytes, Options options);
  absl::StatusOr<Plan*> PlanOf(const Product& product);
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(const Product& product, const Problem& problem) const;
  absl::Status Tune(Plan& plan, const Problem& problem, const Product& product, const Buffer& workspace,
                    cudaStream_t stream);
  cublaslt::Status Multiply(const Plan& plan, const cublaslt::Algorithm& algorithm, const Product& product,
                            const Buffer& workspace, cudaStream_t stream) const;
  absl::Status Failed(cublaslt::Status status, const char* what) const;

  const int64_t workspace_bytes_;
  const Options options_;
  cublaslt::Functions lt_{};
  cublaslt::Handle handle_ = nullptr;
  std::map<Problem, std::unique_ptr<Plan>> plans_;
  std::unique_ptr<ProductTuning> tuning_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUBLASLT_H_
