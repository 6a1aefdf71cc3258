// Attention of a box of a grid's positions to the window of positions around each (Hassani et al., "Faster Neighborhood
// Attention", 2024).
#ifndef KINORA_KERNELS_NEIGHBOURHOOD_ATTENTION_H_
#define KINORA_KERNELS_NEIGHBOURHOOD_ATTENTION_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

constexpr int kMaxNeighbourhoodWidth = 128;  // of a head

struct Extents {
  int time = 0, height = 0, width = 0;
};

// out[i] = softmax(scale · q kᵀ) v over the keys of query i's window. On an axis of L positions they are the K =
// min(window, L) positions from clamp(i − K / 2, 0, L − K) on. Rows are positions, width fastest; heads lie side by
// side in a row.
//
// q, out: a row per position of `queries`; k, v: a row per position of `grid`. f32 or bf16 in any mixture; out must not
// overlap the others.
//
// Heads of 64 columns run on tensor cores if q, k, v and out are bf16 and aligned to 16 bytes. Logits, maxima and sums
// are float32; weights are rounded to bf16 before they multiply values. A block takes 4 x 4 x 8 queries of one head and
// loads each key and value of the union of their windows once: 4 · 64 bytes per key, 14 x 14 x 18 keys for windows of
// 11³. It multiplies each 2 x 2 x 4 queries with whole groups of 2 x 2 x 4 keys: for windows of 11³, 2,304 keys per
// query, of which 1,331 count. A row has the same bits for every box of one grid, and also if the grid is cut out of a
// larger one in time and both the grid and the box begin at multiples of four frames of that. A value that is not
// finite can reach queries of its block whose windows do not contain it.
//
// All other forms are float32 throughout. Eight threads handle a query and head and read every key of the window. A
// row's bits depend on its keys and values alone, also if the grid is part of a larger one.
//
// Minimum traffic: each tensor once. 4 · width operations per query, head and key of the window.
struct NeighbourhoodAttention {
  Rows q{}, k{}, v{}, out{};
  Extents grid{};
  Extents window{};   // odd
  Extents first{};    // position of the box in the grid
  Extents queries{};  // extents of the box
  int heads = 0;
  int width = 0;       // of a head: a multiple of 8, at most kMaxNeighbourhoodWidth
  float scale = 1.0f;  // positive
};

// Returns cudaErrorInvalidValue if the width is not supported, the box is empty or leaves the grid, the scale is not
// positive, a window's extent is even or below 1, the grid has more than 2^31 − 1 positions, or there are more than
// 65,535 heads.
cudaError_t LaunchNeighbourhoodAttention(const NeighbourhoodAttention& attention, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_NEIGHBOURHOOD_ATTENTION_H_
