// Test only: matrix products on the host for the simulated NVIDIA libraries, fast enough for whole renders.
#ifndef KINORA_TESTS_SIMT_HOST_GEMM_H_
#define KINORA_TESTS_SIMT_HOST_GEMM_H_

#include <cstdint>

namespace kinora::simt {

// Element (i, j) lies at data[i · row + j · column].
struct HostMatrix {
  const void* data = nullptr;
  bool bf16 = false;  // otherwise float32
  int64_t row = 0, column = 1;
};

// sums[i · stride + j] = Σ over k of a[i, k] · b[k, j], a: [m, k], b: [k, n]. Uses float32 fused multiply-adds. The
// order of k depends on nothing else, so a row's bits do not depend on other rows or columns.
void HostGemm(int64_t m, int64_t n, int64_t k, const HostMatrix& a, const HostMatrix& b, float* sums, int64_t stride);

// Conversions to and from bf16, which is the upper 16 bits of a float32. Rounds to nearest even; NaN stays NaN.
float FromBf16(uint16_t bits);
uint16_t ToBf16(float value);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_HOST_GEMM_H_
