// Matrix products on the device by cuBLASLt, which is loaded when the backend is opened.
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

// Loads `file`, as dlopen finds it. Fails with FailedPrecondition if it is missing, incomplete or of another major
// version; the message says what to do.
absl::StatusOr<cublaslt::Functions> OpenCublasLt(const std::string& file);

// A matrix in device memory, row after row.
struct Operand {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;        // elements from one row to the next
  bool transposed = false;   // stored as [columns, rows]; not for d
  int64_t batch_stride = 0;  // elements from one matrix of the batch to the next; 0 for a or b: one matrix for all
};

// d[m, n] = activation(alpha · a[m, k] · b[k, n] + bias) (+ d), for each matrix of the batch. Sums are float32. a and
// b are both f32 (true float32, no TF32) with d f32, or both bf16 with d bf16 or f32. Only the elements' own alignment
// is required; products are fast if addresses, strides and widths are multiples of 16 bytes.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Operand a, b, d;
  int batch = 1;
  float alpha = 1.0f;
  bool add = false;            // add to d; not with gelu
  const void* bias = nullptr;  // [n] of d's dtype
  bool gelu = false;           // tanh form, after the bias
};

class Products {
 public:
  struct Options {
    std::string library = cublaslt::kLibrary;  // as dlopen finds it
    std::string tuning_file;                   // empty: nothing is measured or kept
    std::string device;                        // name of the device and its driver in tuning_file
  };
  // Opens the library on the current device, for workspaces of workspace_bytes. Fails as OpenCublasLt does.
  static absl::StatusOr<std::unique_ptr<Products>> Open(int64_t workspace_bytes, Options options);
  ~Products();

  // Enqueues the product. When a problem first occurs outside a capture, times candidate algorithms on the stream and
  // waits for them, unless the product adds to d. Fails with Unimplemented if the library has no algorithm for it.
  // CHECK-fails on a product that the rules of Product do not allow. workspace: memory that no other stream uses.
  absl::Status Run(const Product& product, const Buffer& workspace, cudaStream_t stream);
  // Whether the library has an algorithm for the product. Reads no operand's contents.
  bool Supports(const Product& product) { return Candidates(product) > 0; }
  // Returns the number of algorithms that the library proposes, at most eight.
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
