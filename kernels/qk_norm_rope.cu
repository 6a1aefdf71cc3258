// One block per row, or per few rows that share a row of the tables. Only a row's sums cross threads, so the row stays
// in registers: a thread holds eight columns of a head's first half and their eight partners in the second.
#include "kernels/device/blocks.h"
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/qk_norm_rope.h"

namespace kinora::kernels {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kElementThreads = 256;
constexpr int kPair = 2 * kVector;  // columns of a thread's piece
constexpr int64_t kRowsEach = 4;    // most rows per block
constexpr int64_t kMaxVectorWidth = kMaxThreads * kPair;
constexpr int64_t kMaxRows = 0x7fffffff;

// Rows s, s + step, s + 2·step … share a row of the tables. Block s + step·n handles kRowsEach of them.
__host__ __device__ __forceinline__ int64_t Step(const NormRope& a) {
  return a.cos != nullptr ? a.table_rows : (a.rows + kRowsEach - 1) / kRowsEach;
}
__host__ __device__ __forceinline__ int64_t ThreadBlocks(const NormRope& a) {
  const int64_t passes = a.rows == 0 ? 0 : (a.rows + Step(a) - 1) / Step(a);
  return (passes + kRowsEach - 1) / kRowsEach * Step(a);
}

struct Tensors {
  NormRope q, k, v;  // v: only with blocks
};

// The tensor that a block works on, and the block's number in it. Blocks alternate while both q and k have any; then
// come those of v.
struct Share {
  bool second, third;
  int64_t block;
  __device__ Share(int64_t block_index, int64_t q_blocks, int64_t k_blocks) {
    const int64_t both = min(q_blocks, k_blocks);
    third = block_index >= q_blocks + k_blocks;
    second = block_index < 2 * both ? block_index % 2 == 1 : k_blocks > q_blocks;
    block = block_index < 2 * both ? block_index / 2 : block_index - both;
    if (third) block = block_index - q_blocks - k_blocks;
  }
};

// Returns the tensor of a share. Without blocks there is no third, and nothing is spent on it.
template <bool kToBlocks>
__device__ __forceinline__ NormRope Of(const Tensors& all, const Share& share) {
  if constexpr (kToBlocks) {
    if (share.third) return all.v;
  }
  return share.second ? all.k : all.q;
}

// Returns the sum over the threads that share a head. lanes: their number, a power of two.
__device__ __forceinline__ float HeadSum(float v, int lanes) {
  for (int step = lanes / 2; step > 0; step >>= 1) v += __shfl_xor_sync(kFullWarp, v, step);
  return v;
}

// The columns of a thread: [low, low + 8) and their partners [high, high + 8) in the same head.
struct Piece {
  int64_t low, high, table;
  bool in;
  __device__ explicit Piece(const NormRope& a) {
    const int half = static_cast<int>(a.head_width) / 2;
    const int at = static_cast<int>(threadIdx.x) * kVector;
    const int head = at / half, j = at % half;
    in = 2 * at < a.width;
    low = int64_t{head} * a.head_width + j;
    high = low + half;
    table = a.table_width == half ? j : at;
  }
};

// Values that all rows of a block share.
struct Shared {
  float low[kVector], high[kVector];  // weights
  float cos[kVector], sin[kVector];
  __device__ void Read(const NormRope& a, const Piece& p, int64_t table_row) {
    if (a.weight != nullptr) {
      Load(a.weight + p.low % a.group, low);
      Load(a.weight + p.high % a.group, high);
    }
    if (a.cos != nullptr) {
      Load(a.cos + table_row * a.table_width + p.table, cos);
      Load(a.sin + table_row * a.table_width + p.table, sin);
    }
  }
  // Reads the angles of a row's frame instead of those that all rows of the block share.
  __device__ void ReadFrame(const NormRope& a, const Piece& p, int64_t row) {
    if (p.table >= a.frame_width) return;
    const int64_t at = static_cast<uint32_t>(row) / static_cast<uint32_t>(a.table_rows) * a.frame_width + p.table;
    Load(a.frame_cos + at, cos);
    Load(a.frame_sin + at, sin);
  }
};

__device__ __forceinline__ void Apply(const NormRope& a, const Shared& s, float factor, float (&low)[kVector],
                                      float (&high)[kVector]) {
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    if (a.weight != nullptr) {
      low[j] *= factor * s.low[j];
      high[j] *= factor * s.high[j];
    }
    if (a.cos != nullptr) {
      const float first = low[j] * s.cos[j] - high[j] * s.sin[j];
      high[j] = high[j] * s.cos[j] + low[j] * s.sin[j];
      low[j] = first;
    }
  }
}

// Where a thread's columns go: offsets from `row`, the result's.
template <typename T, bool kToBlocks>
struct Target {
  int64_t low, high;
  __device__ Target(const NormRope& a, const Piece& p) : low(p.low), high(p.high) {
    if constexpr (kToBlocks) {
      low = ColumnOffset(a.to, low);
      high = ColumnOffset(a.to, high);
    }
  }
  __device__ T* Row(const NormRope& a, int64_t row) const {
    if constexpr (kToBlocks) return static_cast<T*>(a.to.data) + RowOffset(a.to, row);
    return static_cast<T*>(a.x.data) + row * a.x.stride;
  }
};

template <typename T, bool kToBlocks>
__global__ void __launch_bounds__(kMaxThreads) QkNormRopeVectors(Tensors all) {
  const Share share(blockIdx.x, ThreadBlocks(all.q), ThreadBlocks(all.k));
  const NormRope a = Of<kToBlocks>(all, share);
  const int64_t step = Step(a), first = share.block / step * step * kRowsEach + share.block % step;
  const bool whole = a.group == a.width, summed = a.weight != nullptr && a.sums == nullptr;
  const Piece p(a);
  Shared shared;
  if (p.in) shared.Read(a, p, share.block % step);
  const Target<T, kToBlocks> target(a, p);
  for (int64_t row = first, n = 0; row < a.rows && n < kRowsEach; row += step, ++n) {
    const T* const x = static_cast<const T*>(a.x.data) + row * a.x.stride;
    float low[kVector], high[kVector], sum = 0;
    if (p.in) {
      shared.ReadFrame(a, p, row);
      Load(x + p.low, low);
      Load(x + p.high, high);
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum += low[j] * low[j] + high[j] * high[j];
    }
    if (summed && whole) {
      __syncthreads();  // the previous row's sum has been read
      sum = BlockSum(sum);
    } else if (summed) {
      sum = HeadSum(sum, static_cast<int>(a.head_width) / kPair);
    }
    if (!p.in) continue;
    if (a.weight != nullptr && !summed) sum = a.sums[row * (a.width / a.group) + p.low / a.group];
    Apply(a, shared, rsqrtf(sum / static_cast<float>(a.full_group) + a.eps), low, high);
    T* const out = target.Row(a, row);
    Store(out + target.low, low);
    Store(out + target.high, high);
  }
}

// Computes factors[g] of a row's groups, for the whole block.
template <typename T>
__device__ __forceinline__ void Factors(const NormRope& a, const T* x, int64_t row, float* factors) {
  const int64_t groups = a.width / a.group;
  const auto factor = [&](float sum) { return rsqrtf(sum / static_cast<float>(a.full_group) + a.eps); };
  const auto squares = [&](int64_t g, int64_t begin, int64_t by) {
    float sum = 0;
    for (int64_t i = begin; i < a.group; i += by) sum += LoadOne(x + g * a.group + i) * LoadOne(x + g * a.group + i);
    return sum;
  };
  if (a.sums != nullptr) {
    for (int64_t g = threadIdx.x; g < groups; g += blockDim.x) factors[g] = factor(a.sums[row * groups + g]);
  } else if (groups == 1) {
    const float sum = BlockSum(squares(0, threadIdx.x, blockDim.x));
    if (threadIdx.x == 0) factors[0] = factor(sum);
  } else {
    const int lane = threadIdx.x % kWarpLanes, warps = blockDim.x / kWarpLanes;
    for (int64_t g = threadIdx.x / kWarpLanes; g < groups; g += warps) {
      const float sum = WarpSum(squares(g, lane, kWarpLanes));
      if (lane == 0) factors[g] = factor(sum);
    }
  }
  __syncthreads();
}

template <typename T, bool kToBlocks>
__global__ void __launch_bounds__(kElementThreads) QkNormRopeElements(Tensors all) {
  const Share share(blockIdx.x, all.q.rows, all.k.rows);
  const NormRope a = Of<kToBlocks>(all, share);
  const int64_t row = share.block;
  const T* const x = static_cast<const T*>(a.x.data) + row * a.x.stride;
  const auto put = [&](int64_t i, float v) {
    if constexpr (kToBlocks) {
      StoreOne(static_cast<T*>(a.to.data) + RowOffset(a.to, row) + ColumnOffset(a.to, i), v);
    } else {
      StoreOne(static_cast<T*>(a.x.data) + row * a.x.stride + i, v);
    }
  };
  float* const factors = DynamicShared<float>();
  if (a.weight != nullptr) Factors(a, x, row, factors);
  const auto normed = [&](int64_t i) {
    const float v = LoadOne(x + i);
    return a.weight == nullptr ? v : v * factors[i / a.group] * a.weight[i % a.group];
  };
  if (a.cos == nullptr) {
    for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) put(i, normed(i));
    return;
  }
  const int64_t half = a.head_width / 2, table = row % a.table_rows * a.table_width;
  const int64_t frame = row / a.table_rows * a.frame_width;
  for (int64_t i = threadIdx.x; i < a.width / 2; i += blockDim.x) {
    const int64_t low = i / half * a.head_width + i % half, column = a.table_width == half ? i % half : i;
    const bool of_frame = column < a.frame_width;
    const float u = normed(low), v = normed(low + half);
    const float c = of_frame ? a.frame_cos[frame + column] : a.cos[table + column];
    const float s = of_frame ? a.frame_sin[frame + column] : a.sin[table + column];
    put(low, u * c - v * s);
    put(low + half, v * c + u * s);
  }
}

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

bool Valid(const NormRope& a) {
  if (a.rows <= 0 || a.rows > kMaxRows || a.width <= 0 || a.x.data == nullptr) return false;
  if (a.weight != nullptr && (a.group <= 0 || a.width % a.group != 0 || a.full_group <= 0)) return false;
  const bool framed = a.frame_cos != nullptr;
  if (framed != (a.frame_sin != nullptr) || framed != (a.frame_width > 0)) return false;
  if (a.cos == nullptr) return a.sin == nullptr && !framed;
  if (a.sin == nullptr || a.head_width <= 0 || a.head_width % 2 != 0 || a.width % a.head_width != 0) return false;
  if (a.table_rows <= 0 || (a.table_width != a.width / 2 && a.table_width != a.head_width / 2)) return false;
  if (!framed) return true;
  return a.table_width == a.head_width / 2 && a.frame_width <= a.table_width && a.table_rows <= kMaxRows &&
         a.frames >= (a.rows + a.table_rows - 1) / a.table_rows;
}

bool FillsBlocks(const NormRope& a) {
  const Blocks& b = a.to;
  if (b.data == nullptr || b.rows <= 0 || b.width <= 0 || b.stride < b.width) return false;
  return a.rows % b.rows == 0 && b.count * b.width == a.width;
}

// A tensor that is not rotated has no heads: a head is then a thread's piece, or the group.
NormRope WithHeads(NormRope a) {
  if (a.weight == nullptr) a.group = a.full_group = a.width;
  if (a.cos == nullptr) a.head_width = a.group == a.width ? kPair : a.group;
  return a;
}

bool Vectors(const NormRope& a) {
  if (!Vectors(Rows{a.to.data, a.to.stride, a.x.type}, a.to.width)) return false;
  if (a.width > kMaxVectorWidth || a.width % kPair != 0 || a.head_width % kPair != 0) return false;
  if (!Vectors(a.x, a.width) || !Aligned(a.weight) || !Aligned(a.cos) || !Aligned(a.sin)) return false;
  if (!Aligned(a.frame_cos) || !Aligned(a.frame_sin) || a.frame_width % kVector != 0) return false;
  if (a.weight == nullptr || a.group == a.width) return true;
  if (a.sums != nullptr) return a.group % a.head_width == 0;
  const int64_t lanes = a.head_width / kPair;
  return a.group == a.head_width && lanes <= kWarpLanes && (lanes & (lanes - 1)) == 0;
}

template <typename T, bool kToBlocks>
cudaError_t LaunchElements(const Tensors& all, cudaStream_t stream) {
  const auto groups = [](const NormRope& a) { return a.rows == 0 ? 0 : a.width / a.group; };
  const size_t shared = sizeof(float) * max(groups(all.q), groups(all.k));
  int device = 0, limit = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const cudaError_t error = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  constexpr size_t kOfBlockSum = kWarpLanes * sizeof(float);
  if (shared + kOfBlockSum > static_cast<size_t>(limit)) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(all.q.rows + all.k.rows + all.v.rows));
  return Launch(QkNormRopeElements<T, kToBlocks>, grid, kElementThreads, shared, stream, all);
}

template <typename T, bool kToBlocks>
cudaError_t LaunchTyped(const Tensors& all, cudaStream_t stream) {
  const auto suits = [](const NormRope& a) { return a.rows == 0 || Vectors(a); };
  if (!suits(all.q) || !suits(all.k) || !suits(all.v)) return LaunchElements<T, kToBlocks>(all, stream);
  const int64_t pieces = max(max(all.q.width, all.k.width), all.v.width) / kPair;
  const auto threads = static_cast<unsigned>((pieces + kWarpLanes - 1) / kWarpLanes * kWarpLanes);
  const dim3 grid(static_cast<unsigned>(ThreadBlocks(all.q) + ThreadBlocks(all.k) + ThreadBlocks(all.v)));
  return Launch(QkNormRopeVectors<T, kToBlocks>, grid, threads, 0, stream, all);
}

template <bool kToBlocks>
cudaError_t LaunchAll(const Tensors& all, cudaStream_t stream) {
  if (all.q.rows + all.k.rows + all.v.rows > kMaxRows) return cudaErrorInvalidValue;
  return all.q.x.type == Type::kBf16 ? LaunchTyped<bf16, kToBlocks>(all, stream)
                                     : LaunchTyped<float, kToBlocks>(all, stream);
}

}  // namespace

cudaError_t LaunchQkNormRope(const NormRope& q, const NormRope& k, cudaStream_t stream) {
  const bool both = k.x.data != nullptr;
  if (!Valid(q) || q.to.data != nullptr) return cudaErrorInvalidValue;
  if (both && (!Valid(k) || k.to.data != nullptr || k.x.type != q.x.type)) return cudaErrorInvalidValue;
  return LaunchAll<false>({.q = WithHeads(q), .k = both ? WithHeads(k) : NormRope{}, .v = {}}, stream);
}

cudaError_t LaunchQkNormRopeToBlocks(const NormRope& q, const NormRope& k, const NormRope& v, cudaStream_t stream) {
  for (const NormRope* a : {&q, &k, &v}) {
    if (!Valid(*a) || !FillsBlocks(*a) || a->x.type != q.x.type) return cudaErrorInvalidValue;
  }
  if (v.weight != nullptr || v.cos != nullptr) return cudaErrorInvalidValue;
  return LaunchAll<true>({.q = WithHeads(q), .k = WithHeads(k), .v = WithHeads(v)}, stream);
}

}  // namespace kinora::kernels
