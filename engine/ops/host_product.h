// A product of matrices in host memory by the CPU's kernels, for code that works on what it reads from files, whatever
// the backend.
#ifndef KINORA_ENGINE_OPS_HOST_PRODUCT_H_
#define KINORA_ENGINE_OPS_HOST_PRODUCT_H_

#include <cstdint>

namespace kinora {

// A matrix of float32; rows are `stride` elements apart.
struct HostRows {
  const float* data = nullptr;
  int64_t stride = 0;
};

// out [rows, columns] += a [rows, depth] · b [depth, columns]. Sums each element over the depth in order, then adds the
// sum. Rows of out are out_stride elements apart. Thread-safe.
void AddHostProduct(const HostRows& a, const HostRows& b, int64_t rows, int64_t depth, int64_t columns, float* out,
                    int64_t out_stride);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_HOST_PRODUCT_H_
