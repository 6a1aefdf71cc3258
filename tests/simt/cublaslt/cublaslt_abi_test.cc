// Compares the engine's declarations of cuBLASLt (engine/ops/cuda/cublaslt_abi.h) with the library's own header.
#include "engine/ops/cuda/cublaslt_abi.h"

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace kinora::cublaslt {
namespace {

#define KINORA_EQUAL(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs) && sizeof(ours) == sizeof(theirs))

static_assert(kMajorVersion == CUBLAS_VER_MAJOR);
KINORA_EQUAL(Status::kSuccess, CUBLAS_STATUS_SUCCESS);
KINORA_EQUAL(Status::kNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
KINORA_EQUAL(Status::kAllocFailed, CUBLAS_STATUS_ALLOC_FAILED);
KINORA_EQUAL(Status::kInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
KINORA_EQUAL(Status::kArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
KINORA_EQUAL(Status::kMappingError, CUBLAS_STATUS_MAPPING_ERROR);
KINORA_EQUAL(Status::kExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
KINORA_EQUAL(Status::kInternalError, CUBLAS_STATUS_INTERNAL_ERROR);
KINORA_EQUAL(Status::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
KINORA_EQUAL(ComputeType::k32F, CUBLAS_COMPUTE_32F);
KINORA_EQUAL(Operation::kNone, CUBLAS_OP_N);
KINORA_EQUAL(Operation::kTranspose, CUBLAS_OP_T);
KINORA_EQUAL(Epilogue::kDefault, CUBLASLT_EPILOGUE_DEFAULT);
KINORA_EQUAL(Epilogue::kBias, CUBLASLT_EPILOGUE_BIAS);
KINORA_EQUAL(Epilogue::kGelu, CUBLASLT_EPILOGUE_GELU);
KINORA_EQUAL(Epilogue::kGeluBias, CUBLASLT_EPILOGUE_GELU_BIAS);
KINORA_EQUAL(kInPlace, CUBLASLT_REDUCTION_SCHEME_INPLACE);
KINORA_EQUAL(kInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
KINORA_EQUAL(kInOutputType, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
KINORA_EQUAL(DescAttribute::kTransA, CUBLASLT_MATMUL_DESC_TRANSA);
KINORA_EQUAL(DescAttribute::kTransB, CUBLASLT_MATMUL_DESC_TRANSB);
KINORA_EQUAL(DescAttribute::kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
KINORA_EQUAL(DescAttribute::kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
KINORA_EQUAL(DescAttribute::kBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
KINORA_EQUAL(LayoutAttribute::kBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
KINORA_EQUAL(LayoutAttribute::kBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
KINORA_EQUAL(PreferenceAttribute::kMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
KINORA_EQUAL(PreferenceAttribute::kReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
KINORA_EQUAL(PreferenceAttribute::kMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
KINORA_EQUAL(PreferenceAttribute::kMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
KINORA_EQUAL(PreferenceAttribute::kMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
KINORA_EQUAL(PreferenceAttribute::kMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t) && alignof(Algorithm) == alignof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(HeuristicResult, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

// Whether a parameter or result has the same ABI: a pointer, an integer of the same size, or void.
template <typename Ours, typename Theirs>
constexpr bool Same() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_same_v<Ours, Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    const bool whole =
        (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
    return whole && sizeof(Ours) == sizeof(Theirs);
  }
}
template <typename R, typename... P, typename S, typename... Q>
constexpr bool SameCall(R (*)(P...), S (*)(Q...)) {
  if constexpr (sizeof...(P) != sizeof...(Q)) {
    return false;
  } else {
    return Same<R, S>() && (Same<P, Q>() && ...);
  }
}
#define KINORA_CALL(name) \
  static_assert(SameCall(decltype(Functions::name){nullptr}, static_cast<decltype(&cublasLt##name)>(nullptr)))

KINORA_CALL(Create);
KINORA_CALL(Destroy);
KINORA_CALL(GetVersion);
KINORA_CALL(GetStatusName);
KINORA_CALL(MatmulDescCreate);
KINORA_CALL(MatmulDescDestroy);
KINORA_CALL(MatmulDescSetAttribute);
KINORA_CALL(MatrixLayoutCreate);
KINORA_CALL(MatrixLayoutDestroy);
KINORA_CALL(MatrixLayoutSetAttribute);
KINORA_CALL(MatmulPreferenceCreate);
KINORA_CALL(MatmulPreferenceDestroy);
KINORA_CALL(MatmulPreferenceSetAttribute);
KINORA_CALL(MatmulAlgoGetHeuristic);
KINORA_CALL(MatmulAlgoCheck);
KINORA_CALL(Matmul);

TEST(CublasLtAbi, IsThatOfTheLibrarysHeader) { SUCCEED() << "held by the compiler"; }

}  // namespace
}  // namespace kinora::cublaslt
