// The windows of neighbourhood attention on a grid.
#ifndef KINORA_KERNELS_DEVICE_WINDOWS_H_
#define KINORA_KERNELS_DEVICE_WINDOWS_H_

#include "kernels/device/device.h"
#include "kernels/neighbourhood_attention.h"

namespace kinora::kernels {

constexpr float kLeastLogit = -3.0e38f;  // below any logit

// An axis of the grid. The window is no larger than the extent.
struct Axis {
  int extent, window;
  // Returns the first key of query i.
  __device__ __forceinline__ int Start(int i) const {
    return max(0, min(min(i, extent - 1) - window / 2, extent - window));
  }
};
struct Axes {
  Axis time, height, width;
  __device__ explicit Axes(const NeighbourhoodAttention& a)
      : time{a.grid.time, a.window.time}, height{a.grid.height, a.window.height}, width{a.grid.width, a.window.width} {}
};

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_DEVICE_WINDOWS_H_
