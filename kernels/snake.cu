// A block computes kRows rows of `columns` channels: it loads the rows of x under them, then computes the doubled rows,
// then the results. Threads run along the channels, with four channels each if rows consist of float4.
//
// Doubled row j is 2·Σ_i x[i − pad]·up[j + left − 2i], so rows j = 2s − left and 2s + 1 − left, a pair, read
// the same up_taps / 2 rows of x, from s − pad backwards: one with the even taps, one with the odd taps. Two adjacent
// results share all but two of the doubled rows that each reads.
#include "kernels/device/device.h"
#include "kernels/snake.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64;
constexpr int kMaxColumns = 32;
constexpr int kUsualTaps = 12;

struct Tile {
  Snake snake;
  SnakeTaps under;     // where results go
  int64_t begin, end;  // results to compute; zeros beyond the signal
  int columns;         // a power of two
  int x_rows, doubled_rows;
};

// kN neighbouring channels.
template <int kN>
struct Lanes {
  float v[kN];
  __device__ static Lanes Read(const float* p) {
    Lanes a;
    if constexpr (kN == 4) {
      const float4 raw = *reinterpret_cast<const float4*>(p);
      a.v[0] = raw.x, a.v[1] = raw.y, a.v[2] = raw.z, a.v[3] = raw.w;
    } else {
      a.v[0] = *p;
    }
    return a;
  }
  __device__ void Write(float* p) const {
    if constexpr (kN == 4) {
      *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
      *p = v[0];
    }
  }
  __device__ void Add(const Lanes& x, float factor) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] += x.v[i] * factor;
  }
};

// The period of sin² is π, so x is reduced to [−π/2, π/2] by π in three parts. The polynomial is a least-squares
// fit of (sin r − r) / r³ at Chebyshev nodes.
__device__ __forceinline__ float SinSquared(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer
  const float n = (x * 0.318309886183790672f + kMagic) - kMagic;
  float r = x - n * 3.140625f;
  r = r - n * 9.676535846665502e-4f;
  r = r - n * 5.126565838509123e-12f;
  const float r2 = r * r;
  float p = -2.39068338458992e-8f;
  p = p * r2 + 2.7526464236871107e-6f;
  p = p * r2 - 1.9840890308842063e-4f;
  p = p * r2 + 8.333330973982811e-3f;
  p = p * r2 - 0.1666666716337204f;
  const float sine = p * r2 * r + r;
  return sine * sine;
}

__device__ __forceinline__ int64_t Within(int64_t i, int64_t extent) { return i < 0 ? 0 : i < extent ? i : extent - 1; }

__device__ __host__ inline int Floor(int n, int by) { return n >= 0 ? n / by : -((by - 1 - n) / by); }

// Writes `result` to every position where a tap reads result `row`.
template <int kN>
__device__ __forceinline__ void WriteUnderTaps(const Tile& t, int64_t row, int64_t column, Lanes<kN> result) {
  if (row < 0 || row >= t.snake.rows) result = {};
  int64_t i = row - t.under.first + t.under.before;
  float* to = t.snake.out + i * t.under.row_stride + column;
  for (int tap = 0; tap < t.under.taps; ++tap) {
    if (i >= 0 && i < t.under.count) result.Write(to);
    i -= t.under.dilation;
    to += t.snake.width - t.under.dilation * t.under.row_stride;
  }
}

// The lengths of both filters. kTaps: both lengths at compile time; 0: as in the arguments.
template <int kTaps>
struct Filters {
  int up, down;
  __device__ explicit Filters(const Snake& a)
      : up(kTaps != 0 ? kTaps : a.up_taps), down(kTaps != 0 ? kTaps : a.down_taps) {}
  __device__ int half() const { return up / 2; }
  __device__ int pad() const { return half() - 1; }
  __device__ int left() const { return 3 * pad(); }
  __device__ int before() const { return down / 2 - (down % 2 == 0 ? 1 : 0); }
  // The s of the first pair, and its first doubled row, for a block that begins with row 0. All later rows are relative
  // to the block's first row.
  __device__ int first_pair() const { return Floor(left() - before(), 2); }
  __device__ int first() const { return 2 * first_pair() - left(); }
};

// A thread's first channel, in the block (lane) and in x (column), and its group of threads that share a row.
struct Where {
  int lane, group, groups;
  int64_t begin, column;  // begin: the block's first result
  bool inside;
  __device__ Where(const Tile& t, int channels) {
    const int across = t.columns / channels;
    lane = static_cast<int>(threadIdx.x) % across * channels;
    group = static_cast<int>(threadIdx.x) / across;
    groups = kThreads / across;
    begin = t.begin + int64_t{blockIdx.x} * kRows;
    column = int64_t{blockIdx.y} * t.columns + lane;
    inside = column < t.snake.width;
  }
};

template <int kN, int kTaps>
__device__ __forceinline__ void LoadRows(const Tile& t, const Filters<kTaps>& f, const Where& w, float* taps,
                                         float* x) {
  const Snake& a = t.snake;
  for (int i = static_cast<int>(threadIdx.x); i < f.up + f.down; i += kThreads) {
    taps[i] = i < f.up ? a.up[i] : a.down[i - f.up];
  }
  const int64_t x_begin = w.begin + f.first_pair() - 2 * f.pad();
  for (int i = w.group; w.inside && i < t.x_rows; i += w.groups) {
    Lanes<kN>::Read(a.x + Within(x_begin + i, a.rows) * a.width + w.column).Write(x + i * t.columns + w.lane);
  }
}

template <int kN>
__device__ __forceinline__ Lanes<kN> Snaked(const Lanes<kN>& x, const Lanes<kN>& frequency,
                                            const Lanes<kN>& amplitude) {
  Lanes<kN> y;
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const float v = x.v[i] + x.v[i];
    y.v[i] = v + amplitude.v[i] * SinSquared(v * frequency.v[i]);
  }
  return y;
}

template <int kN, int kTaps>
__device__ __forceinline__ void DoubleRows(const Tile& t, const Filters<kTaps>& f, const Where& w, const float* taps,
                                           const float* x, float* doubled) {
  const Snake& a = t.snake;
  Lanes<kN> frequency{}, amplitude{};
  if (w.inside) {
    frequency = Lanes<kN>::Read(a.frequency + w.column);
    amplitude = Lanes<kN>::Read(a.amplitude + w.column);
  }
  for (int pair = w.group; w.inside && pair < t.doubled_rows / 2; pair += w.groups) {
    Lanes<kN> even{}, odd{};
    const float* source = x + (pair + f.pad()) * t.columns + w.lane;
#pragma unroll
    for (int k = 0; k < f.half(); ++k, source -= t.columns) {
      const Lanes<kN> v = Lanes<kN>::Read(source);
      even.Add(v, taps[2 * k]);
      odd.Add(v, taps[2 * k + 1]);
    }
    float* const to = doubled + 2 * pair * t.columns + w.lane;
    Snaked(even, frequency, amplitude).Write(to);
    Snaked(odd, frequency, amplitude).Write(to + t.columns);
  }
}

// Fills doubled rows outside the signal with copies of the signal's first and last doubled row.
template <int kN, int kTaps>
__device__ __forceinline__ void RepeatEnds(const Tile& t, const Filters<kTaps>& f, const Where& w, float* doubled) {
  const int64_t last = 2 * t.snake.rows - 1;  // relative row i is row 2·begin + first + i of the signal
  const int64_t origin = 2 * w.begin + f.first();
  if (origin >= 0 && origin + t.doubled_rows - 1 <= last) return;  // the same for all threads
  for (int i = w.group; w.inside && i < t.doubled_rows; i += w.groups) {
    const int64_t nearest = Within(origin + i, last + 1) - origin;
    if (nearest == i || nearest < 0 || nearest >= t.doubled_rows) continue;
    Lanes<kN>::Read(doubled + nearest * t.columns + w.lane).Write(doubled + i * t.columns + w.lane);
  }
}

template <int kN, bool kUnder, int kTaps>
__device__ __forceinline__ void HalveRows(const Tile& t, const Filters<kTaps>& f, const Where& w, const float* taps,
                                          const float* doubled) {
  const int lead = -f.before() - f.first();  // from doubled row 0 in shared memory to the first tap of the first result
  for (int row = 2 * w.group; w.inside && row < kRows && w.begin + row < t.end; row += 2 * w.groups) {
    Lanes<kN> one{}, two{};
    const float* source = doubled + (2 * row + lead) * t.columns + w.lane;
#pragma unroll
    for (int k = 0; k < f.down + 2; ++k, source += t.columns) {
      const Lanes<kN> v = Lanes<kN>::Read(source);
      if (k < f.down) one.Add(v, taps[f.up + k]);
      if (k >= 2) two.Add(v, taps[f.up + k - 2]);
    }
    const bool second = w.begin + row + 1 < t.end;
    if constexpr (kUnder) {
      WriteUnderTaps(t, w.begin + row, w.column, one);
      if (second) WriteUnderTaps(t, w.begin + row + 1, w.column, two);
    } else {
      float* const to = t.snake.out + (w.begin + row) * t.snake.width + w.column;
      one.Write(to);
      if (second) two.Write(to + t.snake.width);
    }
  }
}

// kTaps: see Filters. kUnder: results are written under taps.
template <int kTaps, int kN, bool kUnder>
__global__ void __launch_bounds__(kThreads) SnakeKernel(Tile t) {
  SHARED_ARRAY(float, taps, 2 * kMaxSnakeTaps);
  float* const x = DynamicShared<float>();
  float* const doubled = x + t.x_rows * t.columns;
  const Filters<kTaps> filters(t.snake);
  const Where where(t, kN);
  LoadRows<kN>(t, filters, where, taps, x);
  __syncthreads();
  DoubleRows<kN>(t, filters, where, taps, x, doubled);
  __syncthreads();
  RepeatEnds<kN>(t, filters, where, doubled);
  __syncthreads();
  HalveRows<kN, kUnder>(t, filters, where, taps, doubled);
}

template <int kTaps, bool kUnder>
cudaError_t LaunchTaps(const Tile& t, cudaStream_t stream) {
  const Snake& a = t.snake;
  const dim3 grid(static_cast<unsigned>((t.end - t.begin + kRows - 1) / kRows),
                  static_cast<unsigned>((a.width + t.columns - 1) / t.columns));
  const size_t shared = sizeof(float) * t.columns * (t.x_rows + t.doubled_rows);
  bool aligned = a.width % 4 == 0 && t.under.row_stride % 4 == 0;
  for (const void* p : {static_cast<const void*>(a.x), static_cast<const void*>(a.out),
                        static_cast<const void*>(a.frequency), static_cast<const void*>(a.amplitude)}) {
    aligned &= reinterpret_cast<uintptr_t>(p) % 16 == 0;
  }
  if (aligned) return Launch(SnakeKernel<kTaps, 4, kUnder>, grid, kThreads, shared, stream, t);
  return Launch(SnakeKernel<kTaps, 1, kUnder>, grid, kThreads, shared, stream, t);
}

bool IsValid(const Snake& a) {
  const auto fit = [](int taps) { return taps >= 2 && taps <= kMaxSnakeTaps; };
  return a.rows > 0 && a.rows / kRows < 0x7fffffff && a.width > 0 && a.width <= 65535 * 8 && a.x != nullptr &&
         a.out != nullptr && fit(a.up_taps) && fit(a.down_taps) && a.up_taps % 2 == 0;
}

template <bool kUnder>
cudaError_t LaunchTile(Tile t, cudaStream_t stream) {
  const Snake& a = t.snake;
  t.columns = kMaxColumns;
  while (t.columns > 8 && t.columns / 2 >= a.width) t.columns /= 2;
  // All pairs from the first doubled row that is read to the last.
  const int pad = a.up_taps / 2 - 1, left = 3 * pad, before = a.down_taps / 2 - (a.down_taps % 2 == 0 ? 1 : 0);
  const int pairs = Floor(2 * (kRows - 1) - before + a.down_taps - 1 + left, 2) - Floor(left - before, 2) + 1;
  t.doubled_rows = 2 * pairs;
  t.x_rows = pairs + pad;
  if (a.up_taps == kUsualTaps && a.down_taps == kUsualTaps) return LaunchTaps<kUsualTaps, kUnder>(t, stream);
  return LaunchTaps<0, kUnder>(t, stream);
}

}  // namespace

cudaError_t LaunchSnake(const Snake& a, cudaStream_t stream) {
  if (!IsValid(a)) return cudaErrorInvalidValue;
  return LaunchTile<false>({.snake = a, .under = {}, .begin = 0, .end = a.rows, .columns = 0}, stream);
}

cudaError_t LaunchSnakeUnderTaps(const Snake& a, const SnakeTaps& under, cudaStream_t stream) {
  const bool valid = IsValid(a) && under.taps >= 1 && under.dilation >= 1 && under.first >= 0 && under.count > 0 &&
                     under.before >= 0 && under.row_stride >= under.taps * a.width;
  if (!valid) return cudaErrorInvalidValue;
  const int64_t begin = under.first - under.before;
  const int64_t end = begin + under.count + int64_t{under.taps - 1} * under.dilation;
  return LaunchTile<true>({.snake = a, .under = under, .begin = begin, .end = end, .columns = 0}, stream);
}

}  // namespace kinora::kernels
