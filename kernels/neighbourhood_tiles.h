// The form of neighbourhood attention for tensor cores. Call LaunchNeighbourhoodAttention, which selects it.
#ifndef KINORA_KERNELS_NEIGHBOURHOOD_TILES_H_
#define KINORA_KERNELS_NEIGHBOURHOOD_TILES_H_

#include <cuda_runtime.h>

#include "kernels/neighbourhood_attention.h"

namespace kinora::kernels {

// Whether heads have 64 columns, and q, k, v and out are bf16 and aligned to 16 bytes.
bool SuitsTiles(const NeighbourhoodAttention& attention);

// attention: valid, suits tiles, and its window is no larger than its grid.
cudaError_t LaunchNeighbourhoodTiles(const NeighbourhoodAttention& attention, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_NEIGHBOURHOOD_TILES_H_
