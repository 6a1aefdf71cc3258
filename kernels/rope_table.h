// Cosines and sines of rotation angles, in double precision.
#ifndef KINORA_KERNELS_ROPE_TABLE_H_
#define KINORA_KERNELS_ROPE_TABLE_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// cos[token, c], sin[token, c] of fractions[a, token] · frequencies[k], a product in float32, where column first + c is
// column pad + k·axes + a. Columns before `pad` are 1 and 0.
struct RopeTable {
  const float* fractions = nullptr;      // [axes, tokens]
  const float* frequencies = nullptr;    // [count]
  float *cos = nullptr, *sin = nullptr;  // [tokens, columns]
  int64_t tokens = 0;
  int columns = 0, first = 0, pad = 0, axes = 0, count = 0;
};

// Sine and cosine are computed in double precision and rounded once, so they are within 1 ulp of a table in double
// precision whatever the angle. Minimum traffic: 8·tokens·columns bytes. Returns cudaErrorInvalidValue if there are no
// tokens or columns, or columns past those of the frequencies.
cudaError_t LaunchRopeTable(const RopeTable& args, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_ROPE_TABLE_H_
