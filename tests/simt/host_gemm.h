// Test only: products of matrices on the host, for what stands for NVIDIA's libraries: fast enough for whole renders,
// and no more than a definition otherwise.
#ifndef KINORA_TESTS_SIMT_HOST_GEMM_H_
#define KINORA_TESTS_SIMT_HOST_GEMM_H_

#include <cstdint>

namespace kinora::simt {

// Element (i, j) lies at data[i · row + j · column].
struct HostMatrix {
  const void* data = nullptr;
  bool bf16 = false;  // else float32
  int64_t row = 0, column = 1;
};

// sums[i · stride + j] = Σ over k of a[i, k] · b[k, j], a: [m, k], b: [k, n]. Float32 with fused multiply-adds, in an
// order of k that depends on nothing else: a row's bits do not depend on the other rows, nor on the columns.
void HostGemm(int64_t m, int64_t n, int64_t k, const HostMatrix& a, const HostMatrix& b, float* sums, int64_t stride);

// bf16 as its upper 16 bits; rounds to nearest even, NaN stays NaN.
float FromBf16(uint16_t bits);
uint16_t ToBf16(float value);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_HOST_GEMM_H_
