// One thread per run of values of a line, in 16-byte accesses, or per value if lines do not consist of whole runs.
#include "kernels/blend.h"
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxIndex = 0x7fffffff;
constexpr int kBytesAtOnce = 16;  // values per thread, so that their bytes are stored as one vector

// The position of a thread's values.
struct Place {
  unsigned frame, row, column;
};
__device__ __forceinline__ Place PlaceOf(unsigned i, unsigned pieces, unsigned height, unsigned each) {
  const unsigned line = i / pieces;
  return {line / height, line % height, (i - line * pieces) * each};
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) AddTileKernel(AddTile a) {
  const auto height = static_cast<unsigned>(a.height), pieces = static_cast<unsigned>(a.line) / kEach;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(a.frames) * height * pieces) return;
  const Place at = PlaceOf(i, pieces, height, kEach);
  float* const to = a.sums + at.frame * a.sums_frame + at.row * a.sums_line + at.column;
  const float frame = a.weights.frames[at.frame], row = a.weights.rows[at.row];
  float tile[kEach], columns[kEach], sums[kEach];
  Load(a.tile + int64_t{i} * kEach, tile);
  Load(a.weights.columns + at.column, columns);
  Load(to, sums);
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    sums[j] = __fadd_rn(sums[j], __fmul_rn(__fmul_rn(__fmul_rn(tile[j], frame), row), columns[j]));
  }
  Store(to, sums);
}

// Converts one value to 0..1; sets `bad` if it is NaN.
__device__ __forceinline__ float ToUnit(float sum, bool& bad) {
  const float v = __fmul_rn(__fadd_rn(sum, 1.0f), 0.5f);
  bad |= v != v;
  return v > 0.0f ? min(v, 1.0f) : 0.0f;
}

__device__ __forceinline__ unsigned ToByte(float v) { return static_cast<unsigned>(__fmul_rn(v, 255.0f)); }

// Finishes four values: reads and divides them, stores them as floats if requested, and returns them as four bytes.
__device__ __forceinline__ unsigned FinishFour(const FinishRgb8& a, int64_t at, unsigned column, float row, bool& bad) {
  const float4 sums = *reinterpret_cast<const float4*>(a.sums + at);
  float v[4] = {sums.x, sums.y, sums.z, sums.w};
  if (a.weights.frames != nullptr) {
    const float4 columns = *reinterpret_cast<const float4*>(a.weights.columns + column);
    const float w[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = v[j] / max(__fmul_rn(row, w[j]), 1e-8f);
  }
  unsigned word = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    v[j] = ToUnit(v[j], bad);
    word |= ToByte(v[j]) << (8 * j);
  }
  if (a.rgb != nullptr) *reinterpret_cast<float4*>(a.rgb + at) = make_float4(v[0], v[1], v[2], v[3]);
  return word;
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) FinishRgb8Kernel(FinishRgb8 a) {
  const auto height = static_cast<unsigned>(a.height), pieces = static_cast<unsigned>(a.line) / kEach;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(a.frames) * height * pieces) return;
  const Place at = PlaceOf(i, pieces, height, kEach);
  const int64_t first = int64_t{i} * kEach;
  const bool divide = a.weights.frames != nullptr;
  const float row = divide ? __fmul_rn(a.weights.frames[at.frame], a.weights.rows[at.row]) : 1.0f;
  bool bad = false;
  if constexpr (kEach == kBytesAtOnce) {
    const unsigned x = FinishFour(a, first, at.column, row, bad), y = FinishFour(a, first + 4, at.column + 4, row, bad);
    const unsigned z = FinishFour(a, first + 8, at.column + 8, row, bad);
    const unsigned w = FinishFour(a, first + 12, at.column + 12, row, bad);
    *reinterpret_cast<uint4*>(a.rgb8 + first) = make_uint4(x, y, z, w);
  } else {
    float v = a.sums[first];
    if (divide) v = v / max(__fmul_rn(row, a.weights.columns[at.column]), 1e-8f);
    v = ToUnit(v, bad);
    if (a.rgb != nullptr) a.rgb[first] = v;
    a.rgb8[first] = static_cast<uint8_t>(ToByte(v));
  }
  if (bad) atomicMin(a.first_bad, a.first_frame + static_cast<int32_t>(at.frame));
}

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

bool Whole(const PixelWeights& w) { return w.frames != nullptr && w.rows != nullptr && w.columns != nullptr; }

// Returns the number of threads for `each` values per thread; 0 if there is nothing to do or too much.
int64_t Threads(int64_t frames, int64_t height, int64_t line, int64_t each) {
  if (frames <= 0 || height <= 0 || line <= 0 || frames > kMaxIndex || height > kMaxIndex || line > kMaxIndex) return 0;
  const int64_t lines = frames * height;
  return lines <= kMaxIndex && lines <= kMaxIndex / (line / each) ? lines * (line / each) : 0;
}

dim3 GridOf(int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

cudaError_t LaunchAddTile(const AddTile& a, cudaStream_t stream) {
  const bool vectors = a.line % kVector == 0 && a.sums_line % 4 == 0 && a.sums_frame % 4 == 0 && Aligned(a.tile) &&
                       Aligned(a.sums) && Aligned(a.weights.columns);
  const int64_t threads = Threads(a.frames, a.height, a.line, vectors ? kVector : 1);
  if (threads == 0 || a.tile == nullptr || a.sums == nullptr || !Whole(a.weights)) return cudaErrorInvalidValue;
  if (vectors) return Launch(AddTileKernel<kVector>, GridOf(threads), kThreads, 0, stream, a);
  return Launch(AddTileKernel<1>, GridOf(threads), kThreads, 0, stream, a);
}

cudaError_t LaunchFinishRgb8(const FinishRgb8& a, cudaStream_t stream) {
  const bool vectors =
      a.line % kBytesAtOnce == 0 && Aligned(a.sums) && Aligned(a.rgb) && Aligned(a.rgb8) && Aligned(a.weights.columns);
  const int64_t threads = Threads(a.frames, a.height, a.line, vectors ? kBytesAtOnce : 1);
  const bool valid = threads > 0 && a.sums != nullptr && a.rgb8 != nullptr && a.first_bad != nullptr &&
                     (a.weights.frames == nullptr || Whole(a.weights));
  if (!valid) return cudaErrorInvalidValue;
  if (vectors) return Launch(FinishRgb8Kernel<kBytesAtOnce>, GridOf(threads), kThreads, 0, stream, a);
  return Launch(FinishRgb8Kernel<1>, GridOf(threads), kThreads, 0, stream, a);
}

}  // namespace kinora::kernels
