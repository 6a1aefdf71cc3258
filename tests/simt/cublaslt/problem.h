// Test only: descriptors of the simulated cuBLASLt, and the validation of a product.
#ifndef KINORA_TESTS_SIMT_CUBLASLT_PROBLEM_H_
#define KINORA_TESTS_SIMT_CUBLASLT_PROBLEM_H_

#include <cstdint>

#include "engine/ops/cuda/cublaslt_abi.h"

namespace kinora::cublaslt {

// The first field of a descriptor; kDead once it is destroyed.
enum class Kind : uint64_t { kDead = 0, kHandle = 0x11ba51e001, kDesc, kLayout, kPreference };

struct HandleOpaque {
  Kind kind = Kind::kHandle;
};
struct MatmulDescOpaque {
  Kind kind = Kind::kDesc;
  ComputeType compute = ComputeType::k32F;
  cudaDataType scale = CUDA_R_32F;
  Operation a = Operation::kNone, b = Operation::kNone;
  Epilogue epilogue = Epilogue::kDefault;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // -1: the type of D
};
struct MatrixLayoutOpaque {
  Kind kind = Kind::kLayout;
  cudaDataType type;
  int64_t rows, columns, ld;
  int32_t batch = 1;
  int64_t batch_stride = 0;

  int64_t element() const { return type == CUDA_R_16BF ? 2 : 4; }
};
struct PreferenceOpaque {
  Kind kind = Kind::kPreference;
  uint64_t workspace = 0;
  uint32_t schemes = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

struct Problem {
  const MatmulDescOpaque* desc;
  const MatrixLayoutOpaque *a, *b, *c, *d;

  int64_t m() const { return d->rows; }
  int64_t n() const { return d->columns; }
  int64_t k() const { return desc->a == Operation::kNone ? a->columns : a->rows; }
  bool has_bias() const { return (static_cast<uint32_t>(desc->epilogue) & 4) != 0; }
  bool has_gelu() const { return (static_cast<uint32_t>(desc->epilogue) & 32) != 0; }
};

// Returns kInvalidValue if a descriptor is missing or dead, shapes or batches do not match, or a leading dimension is
// smaller than a column. Returns kNotSupported if no algorithm exists for these types, this scale or this bias type.
Status Validate(const Problem& problem);
// Equal for problems that can use the same algorithm.
uint64_t Fingerprint(const Problem& problem);

}  // namespace kinora::cublaslt

#endif  // KINORA_TESTS_SIMT_CUBLASLT_PROBLEM_H_
