// Which of cuBLASLt's algorithms was the fastest for a product, kept in a small text file among runs.
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

// All of a product that decides about its algorithm. Alignments: bytes, at most 16.
struct ProductProblem {
  int64_t m = 0, n = 0, k = 0, batch = 0;
  int64_t a_stride = 0, b_stride = 0, d_stride = 0, a_batch = 0, b_batch = 0, d_batch = 0;
  DType in = DType::kF32, out = DType::kF32;
  bool a_transposed = false, b_transposed = false, add = false, bias = false, gelu = false;
  uint32_t a_alignment = 0, b_alignment = 0, d_alignment = 0;

  friend auto operator<=>(const ProductProblem&, const ProductProblem&) = default;  // NOLINT: a 0, no pointer
  std::string ToString() const;                                                     // one word
};

// One line for each problem on each device, driver and version of the library. Lines that are torn or not ours are left
// out; a file that cannot be read or written costs a measurement in the next run, and nothing else.
class ProductTuning {
 public:
  // `identity`: device, driver and library, without tabs and line ends.
  ProductTuning(std::string file, std::string identity);
  std::optional<cublaslt::Algorithm> Find(const ProductProblem& problem) const;
  // Writes the file anew, with what others have added meanwhile, and puts it in place by renaming.
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
