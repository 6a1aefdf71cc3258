// Eight threads handle a query of one head, in steps of 32 keys: each computes the logits of four of them, then adds
// all values, weighted, to the sums of its own columns. They are part of a warp, so weights pass between them without a
// barrier.
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/device/windows.h"
#include "kernels/neighbourhood_attention.h"
#include "kernels/neighbourhood_tiles.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kGroup = 8;
constexpr int kGroups = kThreads / kGroup;
constexpr int kEach = 4;  // keys of a thread in a step
constexpr int kStep = kGroup * kEach;
constexpr int kMostPieces = kMaxNeighbourhoodWidth / (kGroup * kVector);  // of eight columns, of a thread

template <bool kVectors, typename T>
__device__ __forceinline__ void LoadEight(const T* from, float (&f)[kVector]) {
  if constexpr (kVectors) {
    Load(from, f);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) f[j] = LoadOne(from + j);
  }
}
template <bool kVectors>
__device__ __forceinline__ void LoadEight(const Rows& rows, int64_t at, float (&f)[kVector]) {
  if (rows.type == Type::kBf16) {
    LoadEight<kVectors>(static_cast<const bf16*>(rows.data) + at, f);
  } else {
    LoadEight<kVectors>(static_cast<const float*>(rows.data) + at, f);
  }
}

template <bool kVectors, typename T>
__device__ __forceinline__ void StoreEight(T* to, const float (&f)[kVector]) {
  if constexpr (kVectors) {
    Store(to, f);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) StoreOne(to + j, f[j]);
  }
}
template <bool kVectors>
__device__ __forceinline__ void StoreEight(const Rows& rows, int64_t at, const float (&f)[kVector]) {
  if (rows.type == Type::kBf16) {
    StoreEight<kVectors>(static_cast<bf16*>(rows.data) + at, f);
  } else {
    StoreEight<kVectors>(static_cast<float*>(rows.data) + at, f);
  }
}

// A query's window.
struct Window {
  int time, height, width;  // the first key
  __device__ Window(const NeighbourhoodAttention& a, const Axes& axes, int64_t query)
      : time(axes.time.Start(static_cast<int>(query / a.queries.width / a.queries.height) + a.first.time)),
        height(axes.height.Start(static_cast<int>(query / a.queries.width % a.queries.height) + a.first.height)),
        width(axes.width.Start(static_cast<int>(query % a.queries.width) + a.first.width)) {}
  // Returns the row of k and v of the window's key i.
  __device__ __forceinline__ int Row(const NeighbourhoodAttention& a, int i) const {
    const int row = i / a.window.width;
    return ((time + row / a.window.height) * a.grid.height + height + row % a.window.height) * a.grid.width + width +
           i % a.window.width;
  }
};

// A thread's place in its group, and what the group shares.
struct Place {
  int lane;
  int64_t column;          // the head's first
  float *query, *weights;  // [width], [kStep]
  int* keys;               // [kStep]: rows of k and v
};

// A thread's part of the running softmax.
struct Running {
  float maximum = kLeastLogit, denominator = 0.0f;  // denominator: of its own keys
  float sums[kMostPieces][kVector] = {};
};

template <bool kVectors>
__device__ __forceinline__ float Dot(const NeighbourhoodAttention& a, const float* query, int64_t at) {
  float sum = 0.0f;
  for (int column = 0; column < a.width; column += kVector) {
    float k[kVector];
    LoadEight<kVectors>(a.k, at + column, k);
#pragma unroll
    for (int j = 0; j < kVector; ++j) sum = fmaf(query[column + j], k[j], sum);
  }
  return sum;
}

// Computes the weights of the window's keys first to first + kStep − 1, and scales earlier sums to the new maximum.
template <bool kVectors>
__device__ __forceinline__ void Weigh(const NeighbourhoodAttention& a, const Window& window, const Place& p, int first,
                                      int count, Running& running) {
  float logits[kEach], highest = running.maximum;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = p.lane + i * kGroup, key = window.Row(a, min(first + at, count - 1));
    p.keys[at] = key;
    logits[i] = first + at < count ? a.scale * Dot<kVectors>(a, p.query, key * a.k.stride + p.column) : kLeastLogit;
    highest = fmaxf(highest, logits[i]);
  }
  highest = GroupMax<kGroup>(highest);
  const float shrink = expf(running.maximum - highest);
  running.maximum = highest;
  running.denominator *= shrink;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float weight = logits[i] > kLeastLogit ? expf(logits[i] - highest) : 0.0f;
    p.weights[p.lane + i * kGroup] = weight;
    running.denominator += weight;
  }
#pragma unroll
  for (int n = 0; n < kMostPieces; ++n) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) running.sums[n][j] *= shrink;
  }
}

// sums += weights · values of one step's keys, for the thread's columns.
template <bool kVectors>
__device__ __forceinline__ void AddValues(const NeighbourhoodAttention& a, const Place& p, int count,
                                          Running& running) {
#pragma unroll
  for (int n = 0; n < kMostPieces; ++n) {
    const int column = (p.lane + n * kGroup) * kVector;
    if (column >= a.width) continue;
    for (int i = 0; i < count; ++i) {
      float v[kVector];
      LoadEight<kVectors>(a.v, p.keys[i] * a.v.stride + p.column + column, v);
#pragma unroll
      for (int j = 0; j < kVector; ++j) running.sums[n][j] = fmaf(p.weights[i], v[j], running.sums[n][j]);
    }
  }
}

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) AttendByGroups(NeighbourhoodAttention a) {
  SHARED_ARRAY(float, queries, kGroups* kMaxNeighbourhoodWidth);
  SHARED_ARRAY(float, weights, kGroups* kStep);
  SHARED_ARRAY(int, keys, kGroups* kStep);
  const int group = static_cast<int>(threadIdx.x) / kGroup, lane = static_cast<int>(threadIdx.x) % kGroup;
  const Place p{lane, static_cast<int64_t>(blockIdx.y) * a.width, queries + group * kMaxNeighbourhoodWidth,
                weights + group * kStep, keys + group * kStep};
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kGroups + group;
  const int64_t last = int64_t{a.queries.time} * a.queries.height * a.queries.width - 1, row = min(index, last);
  const Window window(a, Axes(a), row);
  const int count = a.window.time * a.window.height * a.window.width;
  for (int at = lane * kVector; at < a.width; at += kGroup * kVector) {
    float q[kVector];
    LoadEight<kVectors>(a.q, row * a.q.stride + p.column + at, q);
    Store(p.query + at, q);
  }
  __syncwarp();
  Running running;
  for (int first = 0; first < count; first += kStep) {
    Weigh<kVectors>(a, window, p, first, count, running);
    __syncwarp();
    AddValues<kVectors>(a, p, min(kStep, count - first), running);
    __syncwarp();
  }
  const float factor = 1.0f / GroupSum<kGroup>(running.denominator);
#pragma unroll
  for (int n = 0; n < kMostPieces; ++n) {
    const int at = (lane + n * kGroup) * kVector;
    if (index > last || at >= a.width) continue;
#pragma unroll
    for (int j = 0; j < kVector; ++j) running.sums[n][j] *= factor;
    StoreEight<kVectors>(a.out, row * a.out.stride + p.column + at, running.sums[n]);
  }
}

bool ValidAxis(int grid, int window, int first, int queries) {
  return window >= 1 && window % 2 == 1 && first >= 0 && queries >= 1 && queries <= grid - first;
}

bool Valid(const NeighbourhoodAttention& a) {
  return a.width >= 8 && a.width % 8 == 0 && a.width <= kMaxNeighbourhoodWidth && a.heads >= 1 && a.heads <= 0xffff &&
         a.scale > 0 && ValidAxis(a.grid.time, a.window.time, a.first.time, a.queries.time) &&
         ValidAxis(a.grid.height, a.window.height, a.first.height, a.queries.height) &&
         ValidAxis(a.grid.width, a.window.width, a.first.width, a.queries.width) &&
         int64_t{a.grid.time} * a.grid.height <= 0x7fffffff / a.grid.width;
}

}  // namespace

cudaError_t LaunchNeighbourhoodAttention(const NeighbourhoodAttention& attention, cudaStream_t stream) {
  if (!Valid(attention)) return cudaErrorInvalidValue;
  NeighbourhoodAttention a = attention;
  a.window = {min(a.window.time, a.grid.time), min(a.window.height, a.grid.height), min(a.window.width, a.grid.width)};
  if (SuitsTiles(a)) return LaunchNeighbourhoodTiles(a, stream);
  const bool vectors =
      Vectors(a.q, a.width) && Vectors(a.k, a.width) && Vectors(a.v, a.width) && Vectors(a.out, a.width);
  const int64_t queries = int64_t{a.queries.time} * a.queries.height * a.queries.width;
  const dim3 grid(static_cast<unsigned>((queries + kGroups - 1) / kGroups), static_cast<unsigned>(a.heads));
  return vectors ? Launch(AttendByGroups<true>, grid, kThreads, 0, stream, a)
                 : Launch(AttendByGroups<false>, grid, kThreads, 0, stream, a);
}

}  // namespace kinora::kernels
