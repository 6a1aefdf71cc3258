// The part of cuBLASLt's C interface that this engine calls, version 13, so that no build needs the library's header.
// tests/simt/cublaslt/cublaslt_abi_test.cc compares every value, size and parameter with the real header where it is
// installed.
#ifndef KINORA_ENGINE_OPS_CUDA_CUBLASLT_ABI_H_
#define KINORA_ENGINE_OPS_CUDA_CUBLASLT_ABI_H_

#include <cuda_runtime.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>

namespace kinora::cublaslt {

inline constexpr char kLibrary[] = "libcublasLt.so.13";
inline constexpr size_t kMajorVersion = 13;  // GetVersion() / 10000

enum class Status : uint32_t {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kMappingError = 11,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
};
enum class ComputeType : uint32_t { k32F = 68 };  // float32 products and sums, no TF32
enum class Operation : int32_t { kNone = 0, kTranspose = 1 };
// GELU is the tanh form; a bias has as many elements as D has rows and is added before GELU.
enum class Epilogue : uint32_t { kDefault = 1, kBias = 4, kGelu = 32, kGeluBias = 36 };
// Bits: where the partial sums of a split depth are kept. Without any, the depth is not split.
enum ReductionScheme : uint32_t { kInPlace = 1, kInComputeType = 2, kInOutputType = 4 };

enum class DescAttribute : uint32_t {
  kTransA = 3,       // int32 Operation
  kTransB = 4,       // int32 Operation
  kEpilogue = 7,     // uint32 Epilogue
  kBiasPointer = 8,  // device address
  kBiasType = 26,    // int32 cudaDataType
};
enum class LayoutAttribute : uint32_t {
  kBatchCount = 5,   // int32
  kBatchStride = 6,  // int64, elements
};
enum class PreferenceAttribute : uint32_t {
  kMaxWorkspaceBytes = 1,  // uint64
  kReductionSchemes = 3,   // uint32, bits of ReductionScheme
  kMinAlignmentA = 5,      // uint32, bytes; also the next three
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8,
};

// Objects that the library creates and destroys. Matrices are column-major.
using Handle = struct HandleOpaque*;
using MatmulDesc = struct MatmulDescOpaque*;
using MatrixLayout = struct MatrixLayoutOpaque*;
using Preference = struct PreferenceOpaque*;
// Valid for one version of the library; may be stored.
struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int32_t reserved[4];
};

// The library's functions: cublasLtCreate and so on.
struct Functions {
  Status (*Create)(Handle* handle);
  Status (*Destroy)(Handle handle);
  size_t (*GetVersion)();
  const char* (*GetStatusName)(Status status);
  Status (*MatmulDescCreate)(MatmulDesc* desc, ComputeType compute, cudaDataType scale);
  Status (*MatmulDescDestroy)(MatmulDesc desc);
  Status (*MatmulDescSetAttribute)(MatmulDesc desc, DescAttribute attribute, const void* value, size_t bytes);
  Status (*MatrixLayoutCreate)(MatrixLayout* layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld);
  Status (*MatrixLayoutDestroy)(MatrixLayout layout);
  Status (*MatrixLayoutSetAttribute)(MatrixLayout layout, LayoutAttribute attribute, const void* value, size_t bytes);
  Status (*MatmulPreferenceCreate)(Preference* preference);
  Status (*MatmulPreferenceDestroy)(Preference preference);
  Status (*MatmulPreferenceSetAttribute)(Preference preference, PreferenceAttribute attribute, const void* value,
                                         size_t bytes);
  Status (*MatmulAlgoGetHeuristic)(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                   MatrixLayout d, Preference preference, int wanted, HeuristicResult* results,
                                   int* found);
  Status (*MatmulAlgoCheck)(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                            MatrixLayout d, const Algorithm* algorithm, HeuristicResult* result);
  // D = epilogue(alpha · op(A) · op(B) + beta · C); alpha and beta: float32 on the host. C may be D.
  Status (*Matmul)(Handle handle, MatmulDesc desc, const void* alpha, const void* a, MatrixLayout a_layout,
                   const void* b, MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout,
                   void* d, MatrixLayout d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   cudaStream_t stream);
};

}  // namespace kinora::cublaslt

#endif  // KINORA_ENGINE_OPS_CUDA_CUBLASLT_ABI_H_
