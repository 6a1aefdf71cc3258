// The fastest of cuBLASLt's algorithms for each product, kept in a small text file from run to run.
#ifndef KINORA_ENGINE_OPS_CUDA_PRODUCT_TUNING_H_
#define KINORA_ENGINE_OPS_CUDA_PRODUCT_TUNING_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/ops/cuda/cublaslt_abi.h"
#include "engine/tensor/dtype.h"

namespace kinora {

// The properties of a product that decide which algorithm is the fastest. Alignments are in bytes, at most 16.
struct ProductProblem {
  int64_t m = 0, n = 0, k = 0, batch = 0;
  int64_t a_stride = 0, b_stride = 0, d_stride = 0, a_batch = 0, b_batch = 0, d_batch = 0;
  DType in = DType::kF32, out = DType::kF32;
  bool a_transposed = false, b_transposed = false, add = false, bias = false, gelu = false;
  uint32_t a_alignment = 0, b_alignment = 0, d_alignment = 0;

  friend auto operator<=>(const ProductProblem&, const ProductProblem&) = default;  // NOLINT: a 0, no pointer
  std::string ToString() const;                                                     // one word
};

// The file has one line per problem, device, driver and version of the library. Damaged and foreign lines are ignored.
// If the file cannot be read or written, the next run measures again.
class ProductTuning {
 public:
  // `identity`: device, driver and library, without tabs or newlines.
  ProductTuning(std::string file, std::string identity);
  std::optional<cublaslt::Algorithm> Find(const ProductProblem& problem) const;
  // Rewrites the file, including lines that other processes have added meanwhile, and replaces it by renaming.
  void Keep(const ProductProblem& problem, const cublaslt::Algorithm& algorithm);

 private:
  using Lines = std::map<std::string, std::string>;  // identity and problem -> algorithm, as text
  static Lines Read(const std::string& file);
  std::string Key(const ProductProblem& problem) const { return identity_ + '\t' + problem.ToString(); }

  const std::string file_, identity_;
  Lines lines_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_PRODUCT_TUNING_H_
