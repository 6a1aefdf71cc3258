// A block handles a tile of queries of one head and one chunk of keys. Its 128 threads form 16 groups of 8: a group
// holds kRows queries, for which each thread computes the logits of its own keys and the sums of its own columns. A
// group is part of a warp, so weights pass between its threads without a barrier. Keys and values are loaded in tiles;
// if shared memory has room for two, the next tile is loaded while the current one is used.
#include "kernels/device/activations.h"
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/split_attention.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 2;  // minimum per multiprocessor; without it nvcc spills registers to fit more
constexpr int kGroup = 8;   // threads that share queries
constexpr int kGroups = kThreads / kGroup;
constexpr int kMaxWidth = 256;
constexpr size_t kMostShared = 99 << 10;  // of the smallest supported device
constexpr int kPad = 16;                  // bytes after a row, so that rows start in different banks

// The distribution of heads of at most 32 · kQuarters columns over a block.
template <typename T, int kQuarters, int kRows, int kKeys>
struct Tile {
  using Type = T;
  static constexpr int kQueries = kGroups * kRows;
  static constexpr int kTileKeys = kGroup * kKeys;
  static constexpr int kWeightStride = kTileKeys + 4;
};

// Shared memory, in bytes from its start.
struct Layout {
  int query_stride, key_stride;  // bytes of a row
  int queries, weights, stage;   // offsets; a stage is a tile of keys and one of values
  int stages, bytes;
};

template <typename Shape>
__host__ __device__ Layout LayOut(int width) {
  Layout l;
  l.query_stride = width * 4 + kPad;
  l.key_stride = width * static_cast<int>(sizeof(typename Shape::Type)) + kPad;
  l.stage = 2 * Shape::kTileKeys * l.key_stride;
  const int fixed = Shape::kQueries * (l.query_stride + Shape::kWeightStride * 4);
  l.stages = fixed + 2 * l.stage <= static_cast<int>(kMostShared) ? 2 : 1;
  l.queries = l.stages * l.stage;
  l.weights = l.queries + Shape::kQueries * l.query_stride;
  l.bytes = l.stages * l.stage + fixed;
  return l;
}

__device__ __forceinline__ float Element(const Rows& rows, int64_t row, int64_t column) {
  const int64_t at = row * rows.stride + column;
  return rows.type == Type::kBf16 ? LoadOne(static_cast<const bf16*>(rows.data) + at)
                                  : LoadOne(static_cast<const float*>(rows.data) + at);
}

__device__ __forceinline__ void Load4(const float* from, float (&f)[4]) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  f[0] = v.x, f[1] = v.y, f[2] = v.z, f[3] = v.w;
}
__device__ __forceinline__ void Load4(const bf16* from, float (&f)[4]) {
  const uint2 v = *reinterpret_cast<const uint2*>(from);
  f[0] = __uint_as_float(v.x << 16), f[1] = __uint_as_float(v.x & 0xffff0000u);
  f[2] = __uint_as_float(v.y << 16), f[3] = __uint_as_float(v.y & 0xffff0000u);
}

// The part that a block computes.
struct Where {
  int64_t query, q_row, kv_row;  // the tile's first query; its row in q; the first row of the sequence of keys
  int head, kv_head, chunk;
  int64_t begin, end;  // keys
};

__device__ __forceinline__ Where Locate(const SplitAttention& a, int tile_queries) {
  Where w;
  w.query = static_cast<int64_t>(blockIdx.x) * tile_queries;
  w.head = static_cast<int>(blockIdx.y) % a.heads;
  w.kv_head = w.head / (a.heads / a.kv_heads);
  const int64_t batch = static_cast<int>(blockIdx.y) / a.heads;
  w.q_row = batch * a.queries + w.query;
  w.kv_row = static_cast<int64_t>(a.kv_batch >> (8 * batch) & 255u) * a.keys;
  w.chunk = static_cast<int>(blockIdx.z);
  const int64_t keys = a.keys / a.chunks;
  w.begin = w.chunk * keys;
  w.end = min(a.key_end, w.begin + keys);
  if (a.causal) {  // skip keys that no query of the tile sees
    w.end = min(w.end, w.query + tile_queries);
    if (a.window > 0) w.begin = max(w.begin, min(w.end, w.query - a.window + 1));
  }
  return w;
}

// Loads one tile of rows of k or v into shared memory, with zeros where there is no key: a weight of zero times old
// contents need not be zero.
template <typename Shape, bool kAligned>
__device__ void StageRows(const Rows& from, const SplitAttention& a, const Where& w, int64_t key, const Layout& l,
                          unsigned char* to) {
  using T = typename Shape::Type;
  constexpr int kElements = 16 / static_cast<int>(sizeof(T));
  const int pieces = a.width / kElements;
  const int64_t column = static_cast<int64_t>(w.kv_head) * a.width;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kTileKeys * pieces; i += kThreads) {
    const int row = i / pieces, piece = i % pieces;
    unsigned char* const cell = to + row * l.key_stride + piece * 16;
    if (key + row >= w.end) {
      *reinterpret_cast<uint4*>(cell) = make_uint4(0, 0, 0, 0);
    } else if (kAligned) {
      const int64_t at = (w.kv_row + key + row) * from.stride + column + piece * kElements;
      CopyAsync16(cell, static_cast<const T*>(from.data) + at);
    } else {
      for (int e = 0; e < kElements; ++e) {
        StoreOne(reinterpret_cast<T*>(cell) + e, Element(from, w.kv_row + key + row, column + piece * kElements + e));
      }
    }
  }
}

template <typename Shape, bool kAligned>
__device__ void Stage(const SplitAttention& a, const Where& w, int64_t key, const Layout& l, unsigned char* to) {
  StageRows<Shape, kAligned>(a.k, a, w, key, l, to);
  StageRows<Shape, kAligned>(a.v, a, w, key, l, to + l.stage / 2);
  CommitCopies();
}

// Loads the tile's queries, in float32, with zeros after the last one.
template <typename Shape>
__device__ void LoadQueries(const SplitAttention& a, const Where& w, const Layout& l, unsigned char* shared) {
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kQueries * a.width; i += kThreads) {
    const int row = i / a.width, column = i % a.width;
    const bool there = w.query + row < a.queries;
    reinterpret_cast<float*>(shared + l.queries + row * l.query_stride)[column] =
        there ? Element(a.q, w.q_row + row, static_cast<int64_t>(w.head) * a.width + column) : 0.0f;
  }
}

// A thread's part of the running softmax of kRows queries.
template <int kQuarters, int kRows>
struct Running {
  float maximum[kRows], denominator[kRows];
  float sums[kRows][kQuarters][4];
};

// logits[i][j] of the group's query i and the thread's key j: lane + 8 j.
template <typename Shape, int kRows, int kKeys>
__device__ __forceinline__ void Logits(const SplitAttention& a, const Layout& l, const unsigned char* queries,
                                       const unsigned char* keys, float (&logits)[kRows][kKeys]) {
  using T = typename Shape::Type;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) logits[i][j] = 0.0f;
  }
  for (int column = 0; column < a.width; column += 4) {
    float q[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) Load4(reinterpret_cast<const float*>(queries + i * l.query_stride) + column, q[i]);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      float k[4];
      Load4(reinterpret_cast<const T*>(keys + (lane + kGroup * j) * l.key_stride) + column, k);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) logits[i][j] = fmaf(q[i][c], k[c], logits[i][j]);
      }
    }
  }
}

__device__ __forceinline__ bool Sees(const SplitAttention& a, int64_t query, int64_t key) {
  return !a.causal || (key <= query && (a.window == 0 || query - key < a.window));
}

// Turns logits into weights, in `weights` [kRows, kWeightStride], and scales earlier sums to the new maximum.
template <typename Shape, int kQuarters, int kRows, int kKeys>
__device__ __forceinline__ void Soften(const SplitAttention& a, const Where& w, int64_t query, int64_t key,
                                       float (&logits)[kRows][kKeys], Running<kQuarters, kRows>& running,
                                       float* weights) {
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int64_t at = query + i;
    float maximum = running.maximum[i];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t k = key + lane + kGroup * j;
      const bool counts = k < w.end && Sees(a, at, k) && at < a.queries;
      const float bias = counts && a.bias != nullptr ? a.bias[at * a.bias_stride + k] : 0.0f;
      logits[i][j] = counts ? fmaf(logits[i][j], a.scale, bias) : kNoLogit;
      maximum = fmaxf(maximum, logits[i][j]);
    }
    maximum = GroupMax<kGroup>(maximum);
    const float shrink = expf(running.maximum[i] - maximum);
    running.maximum[i] = maximum;
    float denominator = 0.0f;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const float weight = logits[i][j] > kNoLogit ? expf(logits[i][j] - maximum) : 0.0f;
      weights[i * Shape::kWeightStride + lane + kGroup * j] = weight;
      denominator += weight;
    }
    running.denominator[i] = running.denominator[i] * shrink + GroupSum<kGroup>(denominator);
#pragma unroll
    for (int n = 0; n < kQuarters; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) running.sums[i][n][c] *= shrink;
    }
  }
}

// sums += weights · values for the thread's columns, 4 · (lane + 8 n) to 4 · (lane + 8 n) + 3.
template <typename Shape, int kQuarters, int kRows>
__device__ __forceinline__ void AddValues(const SplitAttention& a, const Layout& l, const float* weights,
                                          const unsigned char* values, Running<kQuarters, kRows>& running) {
  using T = typename Shape::Type;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  for (int key = 0; key < Shape::kTileKeys; key += 4) {
    float p[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) Load4(weights + i * Shape::kWeightStride + key, p[i]);
#pragma unroll
    for (int n = 0; n < kQuarters; ++n) {
      const int column = 4 * (lane + kGroup * n);
      if (column >= a.width) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float v[4];
        Load4(reinterpret_cast<const T*>(values + (key + k) * l.key_stride) + column, v);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int c = 0; c < 4; ++c) running.sums[i][n][c] = fmaf(p[i][k], v[c], running.sums[i][n][c]);
        }
      }
    }
  }
}

template <int kQuarters, int kRows>
__device__ void Write(const SplitAttention& a, const Where& w, int64_t row, const Running<kQuarters, kRows>& running) {
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (w.query + row + i >= a.queries) continue;
    const int64_t at = (w.chunk * a.batch * a.queries + w.q_row + row + i) * a.heads + w.head;
    float* const out = a.out + at * (a.width + 2);
#pragma unroll
    for (int n = 0; n < kQuarters; ++n) {
      const int column = 4 * (lane + kGroup * n);
      if (column >= a.width) continue;
      reinterpret_cast<float2*>(out + column)[0] = make_float2(running.sums[i][n][0], running.sums[i][n][1]);
      reinterpret_cast<float2*>(out + column)[1] = make_float2(running.sums[i][n][2], running.sums[i][n][3]);
    }
    if (lane == 0) *reinterpret_cast<float2*>(out + a.width) = make_float2(running.maximum[i], running.denominator[i]);
  }
}

template <int kQuarters, int kRows>
__device__ __forceinline__ void Clear(Running<kQuarters, kRows>& running) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    running.maximum[i] = kNoLogit;
    running.denominator[i] = 0.0f;
#pragma unroll
    for (int n = 0; n < kQuarters; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) running.sums[i][n][c] = 0.0f;
    }
  }
}

template <typename T, int kQuarters, int kRows, int kKeys, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocks) Attend(SplitAttention a) {
  using Shape = Tile<T, kQuarters, kRows, kKeys>;
  unsigned char* const shared = DynamicShared<unsigned char>();
  const Layout l = LayOut<Shape>(a.width);
  const Where w = Locate(a, Shape::kQueries);
  const int row = static_cast<int>(threadIdx.x) / kGroup * kRows;  // the group's first query in the tile
  float* const weights = reinterpret_cast<float*>(shared + l.weights) + row * Shape::kWeightStride;
  Running<kQuarters, kRows> running;
  Clear(running);
  const int tiles = w.begin < w.end ? static_cast<int>((w.end - w.begin + Shape::kTileKeys - 1) / Shape::kTileKeys) : 0;
  if (tiles > 0) Stage<Shape, kAligned>(a, w, w.begin, l, shared);
  LoadQueries<Shape>(a, w, l, shared);
  for (int t = 0; t < tiles; ++t) {
    const int64_t key = w.begin + static_cast<int64_t>(t) * Shape::kTileKeys;
    if (l.stages == 2 && t + 1 < tiles) {
      Stage<Shape, kAligned>(a, w, key + Shape::kTileKeys, l, shared + (t + 1) % 2 * l.stage);
      WaitCopies<1>();
    } else {
      WaitCopies<0>();
    }
    __syncthreads();
    const unsigned char* const keys = shared + (l.stages == 2 ? t % 2 * l.stage : 0);
    float logits[kRows][kKeys];
    Logits<Shape>(a, l, shared + l.queries + row * l.query_stride, keys, logits);
    Soften<Shape>(a, w, w.query + row, key, logits, running, weights);
    __syncwarp(kFullWarp);
    AddValues<Shape>(a, l, weights, keys + l.stage / 2, running);
    __syncthreads();
    if (l.stages == 1 && t + 1 < tiles) Stage<Shape, kAligned>(a, w, key + Shape::kTileKeys, l, shared);
  }
  Write(a, w, row, running);
}

bool Aligned(const Rows& rows) {
  const int elements = rows.type == Type::kBf16 ? 8 : 4;
  return rows.stride % elements == 0 && reinterpret_cast<uintptr_t>(rows.data) % 16 == 0;
}

template <typename T, int kQuarters, int kRows, int kKeys>
cudaError_t LaunchTile(const SplitAttention& a, cudaStream_t stream) {
  using Shape = Tile<T, kQuarters, kRows, kKeys>;
  const dim3 grid(static_cast<unsigned>((a.queries + Shape::kQueries - 1) / Shape::kQueries),
                  static_cast<unsigned>(a.batch * a.heads), static_cast<unsigned>(a.chunks));
  const auto shared = static_cast<size_t>(LayOut<Shape>(a.width).bytes);
  constexpr Type kType = sizeof(T) == 2 ? Type::kBf16 : Type::kF32;
  if (a.k.type == kType && a.v.type == kType && Aligned(a.k) && Aligned(a.v)) {
    return Launch(Attend<T, kQuarters, kRows, kKeys, true>, grid, kThreads, shared, stream, a);
  }
  return Launch(Attend<T, kQuarters, kRows, kKeys, false>, grid, kThreads, shared, stream, a);
}

template <typename T>
cudaError_t LaunchTyped(const SplitAttention& a, cudaStream_t stream) {
  if (a.width <= 32) return LaunchTile<T, 1, 4, 4>(a, stream);
  if (a.width <= 64) return LaunchTile<T, 2, 4, 4>(a, stream);
  if (a.width <= 128) return LaunchTile<T, 4, 4, 4>(a, stream);
  return LaunchTile<T, 8, 2, 2>(a, stream);
}

// One warp per row and head.
template <typename Out>
__global__ void __launch_bounds__(kThreads) Merge(MergeSplits a) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarpLanes) + threadIdx.x / kWarpLanes;
  if (index >= a.rows * a.heads) return;  // whole warps, and no barrier follows
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t between = a.rows * a.heads * (a.width + 2);
  const float* const first = a.chunks + index * (a.width + 2);
  float maximum = kNoLogit, denominator = 0.0f;
  for (int c = 0; c < a.count; ++c) maximum = fmaxf(maximum, first[c * between + a.width]);
  for (int c = 0; c < a.count; ++c) {
    denominator += expf(first[c * between + a.width] - maximum) * first[c * between + a.width + 1];
  }
  const float gate = a.logits != nullptr ? 2.0f * Sigmoid(a.logits[index]) : 1.0f;
  const float factor = denominator > 0.0f ? gate / denominator : 0.0f;
  Out* const out = static_cast<Out*>(a.out.data) + index / a.heads * a.out.stride + index % a.heads * a.width;
  for (int column = lane; column < a.width; column += kWarpLanes) {
    float sum = 0.0f;
    for (int c = 0; c < a.count; ++c) {
      sum = fmaf(expf(first[c * between + a.width] - maximum), first[c * between + column], sum);
    }
    StoreOne(out + column, sum * factor);
  }
}

}  // namespace

cudaError_t LaunchSplitAttention(const SplitAttention& a, cudaStream_t stream) {
  const bool valid = a.width > 0 && a.width <= kMaxWidth && a.width % 8 == 0 && a.batch >= 1 && a.batch <= 8 &&
                     a.queries >= 1 && a.chunks >= 1 && a.keys % a.chunks == 0 && a.kv_heads >= 1 &&
                     a.heads % a.kv_heads == 0 && a.batch * a.heads <= 0xffff && a.chunks <= 0xffff;
  if (!valid) return cudaErrorInvalidValue;
  const bool all_bf16 = a.q.type == Type::kBf16 && a.k.type == Type::kBf16 && a.v.type == Type::kBf16;
  return all_bf16 ? LaunchTyped<bf16>(a, stream) : LaunchTyped<float>(a, stream);
}

cudaError_t LaunchMergeSplits(const MergeSplits& a, cudaStream_t stream) {
  const int64_t warps = a.rows * a.heads;
  if (a.rows < 1 || a.count < 1 || a.heads < 1 || a.width < 1 || a.width > kMaxWidth) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>((warps + kThreads / kWarpLanes - 1) / (kThreads / kWarpLanes)));
  return a.out.type == Type::kBf16 ? Launch(Merge<bf16>, grid, kThreads, 0, stream, a)
                                   : Launch(Merge<float>, grid, kThreads, 0, stream, a);
}

}  // namespace kinora::kernels
