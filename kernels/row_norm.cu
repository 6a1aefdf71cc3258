// One block per row. If rows consist of whole aligned vectors, the row stays in registers between the sums and the
// outputs; otherwise threads process single elements and read the row again.
#include "kernels/device/activations.h"
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/row_norm.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMostVectors = 4;  // per thread; wider rows use twice the threads, since eight vectors would spill
// Minimum blocks per multiprocessor. Without it nvcc spills registers to fit more.
template <int kVectors>
constexpr int kBlocks = kVectors == 1   ? 4
                        : kVectors == 2 ? 3
                                        : 1;
constexpr int64_t kMaxWidth = 2 * kThreads * kMostVectors * kVector;

// Slot `slot` of a row's modulation.
struct Slots {
  const float *table, *base;
  __device__ Slots(const Modulation& m, int64_t row, int slot, int64_t width) {
    const int64_t at = m.row == nullptr ? 0 : m.row[row % m.tokens];
    table = m.table + (at * m.slots + slot) * width;
    base = m.base == nullptr ? nullptr : m.base + slot * width;
  }
  __device__ void Read(int64_t column, float (&f)[kVector]) const {
    Load(table + column, f);
    if (base == nullptr) return;
    float b[kVector];
    Load(base + column, b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) f[j] += b[j];
  }
  __device__ float ReadOne(int64_t column) const { return table[column] + (base == nullptr ? 0.0f : base[column]); }
};

template <typename T>
__device__ __forceinline__ T* Row(const Rows& rows, int64_t row) {
  return static_cast<T*>(rows.data) + row * rows.stride;
}

__device__ __forceinline__ float RoundTo(const bf16*, float v) { return __bfloat162float(__float2bfloat16_rn(v)); }
__device__ __forceinline__ float RoundTo(const float*, float v) { return v; }

__device__ __forceinline__ float Activated(NormActivation activation, float v) {
  if (activation == NormActivation::kSilu) return Silu(v);
  if (activation == NormActivation::kGeluTanh) return GeluTanh(v);
  return v;
}

// Statistics of a row: normalised = (x − mean) · factor.
struct Statistics {
  float mean, factor;
};

// sum(f) adds f(x) over all x of this thread. A layer norm takes two rounds, since a variance from Σx² would lose
// digits.
template <typename Sum>
__device__ __forceinline__ Statistics Measure(const RowNorm& a, const Sum& sum) {
  const float n = static_cast<float>(a.width);
  if (a.kind == NormKind::kRms) {
    const float squares = BlockSum<0>(sum([](float v) { return v * v; }));
    return {0.0f, rsqrtf(squares / n + a.eps)};
  }
  if (a.kind == NormKind::kNone) return {0.0f, 1.0f};
  const float mean = BlockSum<1>(sum([](float v) { return v; })) / n;
  const float squares = BlockSum<2>(sum([mean](float v) { return (v - mean) * (v - mean); }));
  return {mean, rsqrtf(squares / n + a.eps)};
}

// Returns the first column of this thread's vector `n`.
__device__ __forceinline__ int Column(int n) {
  return (n * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kVector;
}

// Reads this thread's part of a row; if there is a residual, adds y and stores the sum.
template <typename X, typename Y, int kVectors>
__device__ __forceinline__ void ReadRow(const RowNorm& a, int64_t row, float (&kept)[kVectors][kVector]) {
  const bool adds = a.y.data != nullptr && row < a.y_rows, gated = a.gate.table != nullptr;
  X* const x = Row<X>(a.x, row);
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    if (Column(n) >= a.width) continue;
    Load(x + Column(n), kept[n]);
    if (!adds) continue;
    float y[kVector], gate[kVector];
    Load(Row<Y>(a.y, row) + Column(n), y);
    if (gated) Slots(a.gate, a.first_row + row, a.gate_slot, a.width).Read(Column(n), gate);
#pragma unroll
    for (int j = 0; j < kVector; ++j) kept[n][j] = RoundTo(x, kept[n][j] + (gated ? gate[j] * y[j] : y[j]));
    Store(x + Column(n), kept[n]);
  }
}

template <typename Out>
__device__ __forceinline__ void WriteModulated(const RowNorm& a, const ModulatedOutput& output, int64_t row, int column,
                                               const float (&normalised)[kVector]) {
  float h[kVector], scale[kVector], shift[kVector];
  const bool modulated = output.modulation.table != nullptr;
  if (modulated) {
    Slots(output.modulation, a.first_row + row, output.scale_slot, a.width).Read(column, scale);
    Slots(output.modulation, a.first_row + row, output.shift_slot, a.width).Read(column, shift);
  }
#pragma unroll
  for (int j = 0; j < kVector; ++j) h[j] = modulated ? normalised[j] * (1.0f + scale[j]) + shift[j] : normalised[j];
  Store(Row<Out>(output.out, row) + column, h);
}

template <typename X, typename Y, typename Out, int kVectors>
__global__ void __launch_bounds__(kVectors == kMostVectors ? 2 * kThreads : kThreads, kBlocks<kVectors>)
    RowNormVectors(RowNorm a) {
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const bool first = a.outputs > 0 && row < a.first.rows, second = a.outputs == 2 && row < a.second.rows;
  float kept[kVectors][kVector];
  ReadRow<X, Y>(a, row, kept);
  if (!first && !second) return;  // the same for every thread
  const Statistics s = Measure(a, [&](const auto& term) {
    float total = 0;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      if (Column(n) >= a.width) continue;
#pragma unroll
      for (int j = 0; j < kVector; ++j) total += term(kept[n][j]);
    }
    return total;
  });
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    if (Column(n) >= a.width) continue;
    float weight[kVector];
    if (a.weight != nullptr) Load(a.weight + Column(n), weight);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float v = (kept[n][j] - s.mean) * s.factor * (a.weight != nullptr ? weight[j] : 1.0f);
      kept[n][j] = Activated(a.activation, v);
    }
    if (first) WriteModulated<Out>(a, a.first, row, Column(n), kept[n]);
    if (second) WriteModulated<Out>(a, a.second, row, Column(n), kept[n]);
  }
}

template <typename X, typename Y, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocks<1>) RowNormElements(RowNorm a) {
  WaitForPrevious();
  const int64_t row = blockIdx.x, place = a.first_row + row;
  const bool first = a.outputs > 0 && row < a.first.rows, second = a.outputs == 2 && row < a.second.rows;
  const bool adds = a.y.data != nullptr && row < a.y_rows;
  X* const x = Row<X>(a.x, row);
  if (adds) {
    const Y* const y = Row<Y>(a.y, row);
    const bool gated = a.gate.table != nullptr;
    for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
      const float gate = gated ? Slots(a.gate, place, a.gate_slot, a.width).ReadOne(i) : 1.0f;
      StoreOne(x + i, LoadOne(x + i) + gate * LoadOne(y + i));
    }
  }
  if (!first && !second) return;  // the same for every thread
  const Statistics s = Measure(a, [&](const auto& term) {
    float total = 0;
    for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) total += term(LoadOne(x + i));
    return total;
  });
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    const float v = (LoadOne(x + i) - s.mean) * s.factor * (a.weight != nullptr ? a.weight[i] : 1.0f);
    const float norm = Activated(a.activation, v);
    const auto write = [&](const ModulatedOutput& output) {
      float h = norm;
      if (output.modulation.table != nullptr) {
        const Slots scale(output.modulation, place, output.scale_slot, a.width);
        const Slots shift(output.modulation, place, output.shift_slot, a.width);
        h = norm * (1.0f + scale.ReadOne(i)) + shift.ReadOne(i);
      }
      StoreOne(Row<Out>(output.out, row) + i, h);
    };
    if (first) write(a.first);
    if (second) write(a.second);
  }
}

bool Vectors(const void* table) { return reinterpret_cast<uintptr_t>(table) % 16 == 0; }

bool Vectors(const Modulation& m) { return Vectors(m.table) && Vectors(m.base); }

bool Vectors(const RowNorm& a) {
  bool all = Vectors(a.x, a.width) && Vectors(a.y, a.width) && Vectors(a.gate) && Vectors(a.weight);
  if (a.outputs > 0) all &= Vectors(a.first.out, a.width) && Vectors(a.first.modulation);
  if (a.outputs > 1) all &= Vectors(a.second.out, a.width) && Vectors(a.second.modulation);
  return all;
}

template <typename X, typename Y, typename Out>
cudaError_t LaunchTyped(const RowNorm& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(a.rows));
  if (!Vectors(a)) return LaunchEarly(RowNormElements<X, Y, Out>, grid, kThreads, 0, stream, a);
  const int64_t vectors = a.width / kVector;
  if (vectors <= kThreads) {
    const auto threads = static_cast<unsigned>((vectors + kWarpLanes - 1) / kWarpLanes * kWarpLanes);
    return LaunchEarly(RowNormVectors<X, Y, Out, 1>, grid, threads, 0, stream, a);
  }
  if (vectors <= 2 * kThreads) return LaunchEarly(RowNormVectors<X, Y, Out, 2>, grid, kThreads, 0, stream, a);
  const unsigned threads = vectors <= kMostVectors * kThreads ? kThreads : 2 * kThreads;
  return LaunchEarly(RowNormVectors<X, Y, Out, kMostVectors>, grid, threads, 0, stream, a);
}

template <typename X, typename Y>
cudaError_t ByOutput(const RowNorm& a, cudaStream_t stream) {
  if (a.outputs == 2 && a.second.out.type != a.first.out.type) return cudaErrorInvalidValue;
  if (a.outputs > 0 && a.first.out.type == Type::kBf16) return LaunchTyped<X, Y, bf16>(a, stream);
  return LaunchTyped<X, Y, float>(a, stream);
}

template <typename X>
cudaError_t ByResidual(const RowNorm& a, cudaStream_t stream) {
  return a.y.type == Type::kBf16 ? ByOutput<X, bf16>(a, stream) : ByOutput<X, float>(a, stream);
}

}  // namespace

cudaError_t LaunchRowNorm(const RowNorm& a, cudaStream_t stream) {
  const bool valid = a.rows > 0 && a.rows <= 0x7fffffff && a.width > 0 && a.width <= kMaxWidth && a.x.data != nullptr &&
                     a.outputs >= 0 && a.outputs <= 2;
  if (!valid) return cudaErrorInvalidValue;
  return a.x.type == Type::kBf16 ? ByResidual<bf16>(a, stream) : ByResidual<float>(a, stream);
}

}  // namespace kinora::kernels
