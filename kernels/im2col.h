// Copies the pixels under a convolution's taps as rows of a product, for a run of output positions. With a kernel of
// one tap, copies pixels with their padding.
#ifndef KINORA_KERNELS_IM2COL_H_
#define KINORA_KERNELS_IM2COL_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

enum class Edge : uint8_t { kZeros, kReflect, kReplicate };

// Output i reads i · stride − before + tap · dilation; beyond the extent, `edge` selects zeros, one reflection, or
// the nearest end.
struct Im2colAxis {
  int64_t extent = 0;  // of x
  int64_t outputs = 0;
  int taps = 1, stride = 1, dilation = 1;
  int64_t before = 0;  // negative: outputs begin past x's first position
  Edge edge = Edge::kZeros;
};

// columns[i] = the channels of x under all taps (time, height, width) of output position first + i, one tap after
// another, for i < count. x: [time.extent · height.extent · width.extent, channels]; columns: [count, taps ·
// channels], each of either type; they must not overlap.
//
// Minimum traffic: x once, columns once; x is read for every tap, mostly from the caches.
struct Im2col {
  Rows x, columns;
  int64_t channels = 0;
  Im2colAxis time, height, width;
  int64_t first = 0, count = 0;
};

// Returns cudaErrorInvalidValue if there is nothing to do, positions exceed the outputs, reflections pass the other
// end, or there are more than 65,535 taps or 2^31 − 1 elements per tap.
cudaError_t LaunchIm2col(const Im2col& im2col, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_IM2COL_H_
