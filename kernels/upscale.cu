// Both ops copy runs: a run of a pixel of out is a run of a pixel of x. Blocks divide out's lines (frame after frame),
// with one thread per 16 bytes if runs consist of them. If neither side has gaps, a whole block's width is one run.
// Interleaved channels have no runs; they are reordered in shared memory.
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/upscale.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256, kOuterThreads = 128;
constexpr int64_t kMaxInterleaved = 1 << 14;
constexpr int64_t kMaxIndex = 0x7fffffff;
constexpr int kBanks = 32;

// The kernels' description of runs. Lengths are in pieces; each thread moves one.
struct Runs {
  const void* from;
  void* to;
  int64_t from_pixel, to_pixel;  // from one pixel to the next
  int64_t from_height, from_width;
  unsigned out_height, out_width, run, chunks;  // run: per pixel; chunks: blocks per line
  unsigned time, high, wide;                    // factors
  int64_t part_time, part_high, part_wide;      // from one part of x to the next
  unsigned dropped;                             // frames of out that are left out
};

template <typename Piece>
struct CopyPiece {
  static constexpr int kElements = 1;
  using Element = Piece;
  __device__ static void Move(const Piece* from, Piece* to) { *to = *from; }
};
template <typename T>
struct AddOne {
  static constexpr int kElements = 1;
  using Element = T;
  __device__ static void Move(const T* from, T* to) { StoreOne(to, LoadOne(from) + LoadOne(to)); }
};
template <typename T>
struct AddVector {
  static constexpr int kElements = kVector;
  using Element = T;
  __device__ static void Move(const T* from, T* to) {
    float a[kVector], b[kVector];
    Load(from, a);
    Load(to, b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) b[j] += a[j];
    Store(to, b);
  }
};

template <typename Piece>
__global__ void __launch_bounds__(kThreads) MoveRuns(Runs a) {
  const unsigned line = blockIdx.x / a.chunks, i = blockIdx.x % a.chunks * blockDim.x + threadIdx.x;
  if (i >= a.out_width * a.run) return;
  const unsigned pixel = i / a.run, piece = i % a.run;
  const unsigned frame = line / a.out_height + a.dropped, y = line % a.out_height;
  const int64_t source = (frame / a.time * a.from_height + y / a.high) * a.from_width + pixel / a.wide;
  const int64_t part = frame % a.time * a.part_time + y % a.high * a.part_high + pixel % a.wide * a.part_wide;
  const int64_t from = source * a.from_pixel + part + piece;
  const int64_t to = (int64_t{line} * a.out_width + pixel) * a.to_pixel + piece;
  Piece::Move(static_cast<const typename Piece::Element*>(a.from) + from * Piece::kElements,
              static_cast<typename Piece::Element*>(a.to) + to * Piece::kElements);
}

// Converts runs to pieces of `length` old pieces. Returns false if runs do not consist of them.
bool Widen(Runs& a, int length, int bytes) {
  const auto whole = [&](int64_t n) { return n % length == 0; };
  const bool aligned = (reinterpret_cast<uintptr_t>(a.from) | reinterpret_cast<uintptr_t>(a.to)) % bytes == 0;
  if (!aligned || !whole(a.run) || !whole(a.from_pixel) || !whole(a.to_pixel) || !whole(a.part_time) ||
      !whole(a.part_high) || !whole(a.part_wide))
    return false;
  for (int64_t* n : {&a.from_pixel, &a.to_pixel, &a.part_time, &a.part_high, &a.part_wide}) *n /= length;
  a.run /= length;
  return true;
}

template <typename Piece>
cudaError_t LaunchRuns(Runs a, int64_t lines, cudaStream_t stream) {
  const int64_t pieces = int64_t{a.out_width} * a.run;
  const auto threads =
      static_cast<unsigned>(min(int64_t{kThreads}, (pieces + kWarpLanes - 1) / kWarpLanes * kWarpLanes));
  a.chunks = static_cast<unsigned>((pieces + threads - 1) / threads);
  if (lines * a.chunks > kMaxIndex) return cudaErrorInvalidValue;
  return Launch(MoveRuns<Piece>, dim3(static_cast<unsigned>(lines * a.chunks)), threads, 0, stream, a);
}

// Frames of out, and lines per frame.
int64_t OutFrames(const Upscale& s, bool drop_first) { return s.frames * s.time_factor - (drop_first ? 1 : 0); }
int64_t OutHeight(const Upscale& s) { return s.height * s.height_factor; }

bool Valid(const Upscale& s, int64_t channels) {
  return s.frames > 0 && s.height > 0 && s.width > 0 && s.time_factor > 0 && s.height_factor > 0 &&
         s.width_factor > 0 && channels > 0 && s.width * s.width_factor * channels <= kMaxIndex &&
         s.frames * s.time_factor * OutHeight(s) <= kMaxIndex;
}

// Runs of `channels` elements; parts are `part` elements apart in x (0: one part for all).
Runs RunsOf(const Upscale& s, int64_t channels, int64_t part, int64_t x_stride, int64_t out_stride) {
  Runs a{.from_pixel = x_stride,
         .to_pixel = out_stride,
         .from_height = s.height,
         .from_width = s.width,
         .out_height = static_cast<unsigned>(OutHeight(s)),
         .out_width = static_cast<unsigned>(s.width * s.width_factor),
         .run = static_cast<unsigned>(channels),
         .time = static_cast<unsigned>(s.time_factor),
         .high = static_cast<unsigned>(s.height_factor),
         .wide = static_cast<unsigned>(s.width_factor),
         .part_time = part * s.height_factor * s.width_factor,
         .part_high = part * s.width_factor,
         .part_wide = part};
  if (part == channels && out_stride == channels) {  // the parts of one line of a block are one run on both sides
    a.out_width /= a.wide;
    a.run *= a.wide;
    a.to_pixel *= a.wide;
    a.part_wide = 0;
    a.wide = 1;
  }
  if (part == 0 && a.wide == 1) {  // repeated lines
    a.run *= a.out_width;
    a.from_pixel *= a.out_width;
    a.to_pixel *= a.out_width;
    a.out_width = 1;
    a.from_width = 1;
  }
  return a;
}

cudaError_t LaunchCopies(Runs a, int64_t lines, Type type, cudaStream_t stream) {
  const int size = type == Type::kF32 ? 4 : 2;
  if (Widen(a, 16 / size, 16)) return LaunchRuns<CopyPiece<uint4>>(a, lines, stream);
  if (size == 4) return LaunchRuns<CopyPiece<unsigned>>(a, lines, stream);
  return LaunchRuns<CopyPiece<unsigned short>>(a, lines, stream);
}

template <typename T>
cudaError_t LaunchSums(Runs a, int64_t lines, cudaStream_t stream) {
  if (Widen(a, kVector, 16)) return LaunchRuns<AddVector<T>>(a, lines, stream);
  return LaunchRuns<AddOne<T>>(a, lines, stream);
}

// ---- Interleaved channels

struct Interleaved {
  DepthToSpace move;
  int row;  // floats per part in shared memory
};

// Writes a piece of a pixel of out from shared memory.
template <bool kVectors, typename T>
__device__ __forceinline__ void WritePiece(const float* from, bool add, T* out) {
  if constexpr (kVectors) {
    float f[kVector], sum[kVector] = {};
    Load(from, f);
    if (add) Load(out, sum);
#pragma unroll
    for (int j = 0; j < kVector; ++j) f[j] = add ? f[j] + sum[j] : f[j];
    Store(out, f);
  } else {
    StoreOne(out, add ? *from + LoadOne(out) : *from);
  }
}

// One block per pixel of x: stores the channels part by part in shared memory, then writes the pixels of out.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kOuterThreads) MoveInterleaved(Interleaved a) {
  float* const parts = DynamicShared<float>();
  const DepthToSpace& m = a.move;
  const Upscale& s = m.scale;
  const int count = s.time_factor * s.height_factor * s.width_factor, channels = static_cast<int>(m.channels);
  constexpr int kEach = kVectors ? kVector : 1;
  const T* const x = static_cast<const T*>(m.x.data) + blockIdx.x * m.x.stride;
  for (int i = static_cast<int>(threadIdx.x) * kEach; i < count * channels; i += kOuterThreads * kEach) {
    float f[kVector];
    if constexpr (kVectors) {
      Load(x + i, f);
    } else {
      f[0] = LoadOne(x + i);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) parts[(i + j) % count * a.row + (i + j) / count] = f[j];
  }
  __syncthreads();
  const int64_t column = blockIdx.x % s.width, line = blockIdx.x / s.width % s.height,
                frame = blockIdx.x / s.width / s.height;
  const int pieces = static_cast<int>(m.out_channels) / kEach;
  for (int i = static_cast<int>(threadIdx.x); i < count * pieces; i += kOuterThreads) {
    const int part = i / pieces, c = i % pieces * kEach;
    const int64_t to_frame = frame * s.time_factor + part / (s.height_factor * s.width_factor) - (m.drop_first ? 1 : 0);
    if (to_frame < 0) continue;
    const int64_t to_line = line * s.height_factor + part / s.width_factor % s.height_factor;
    const int64_t to = (to_frame * s.height * s.height_factor + to_line) * s.width * s.width_factor +
                       column * s.width_factor + part % s.width_factor;
    WritePiece<kVectors>(parts + part * a.row + c % channels, m.add,
                         static_cast<T*>(m.out.data) + to * m.out.stride + c);
  }
}

template <typename T>
cudaError_t LaunchInterleaved(const DepthToSpace& m, cudaStream_t stream) {
  const int64_t pixels = m.scale.frames * m.scale.height * m.scale.width;
  const int count = m.scale.parts();
  if (count * m.channels > kMaxInterleaved || pixels > kMaxIndex || m.out_channels * count > kMaxIndex)
    return cudaErrorInvalidValue;
  Interleaved a{.move = m, .row = static_cast<int>(m.channels)};
  const bool vectors = Vectors(m.x, count * m.channels) && Vectors(m.out, m.out_channels) && m.channels % kVector == 0;
  // Pads parts so that they begin in different banks: a warp's writes then do not conflict if the number of parts is a
  // power of two.
  if (vectors && count > 1 && count <= 8) {
    const int wanted = kBanks / count;
    a.row += (wanted - a.row % kBanks + kBanks) % kBanks / 4 * 4;
  }
  const size_t shared = sizeof(float) * count * a.row;
  const dim3 grid(static_cast<unsigned>(pixels));
  if (vectors) return Launch(MoveInterleaved<T, true>, grid, kOuterThreads, shared, stream, a);
  return Launch(MoveInterleaved<T, false>, grid, kOuterThreads, shared, stream, a);
}

}  // namespace

cudaError_t LaunchDepthToSpace(const DepthToSpace& m, cudaStream_t stream) {
  const bool fits = m.channels > 0 && m.x.data != nullptr && m.out.data != nullptr && m.x.type == m.out.type &&
                    (m.channels_outer ? m.out_channels % m.channels == 0 : m.out_channels == m.channels);
  const int64_t lines = OutFrames(m.scale, m.drop_first) * OutHeight(m.scale);
  if (!fits || !Valid(m.scale, m.out_channels) || lines <= 0) return cudaErrorInvalidValue;
  if (m.channels_outer) {
    return m.x.type == Type::kF32 ? LaunchInterleaved<float>(m, stream) : LaunchInterleaved<bf16>(m, stream);
  }
  Runs a = RunsOf(m.scale, m.channels, m.channels, m.x.stride, m.out.stride);
  a.from = m.x.data;
  a.to = m.out.data;
  a.dropped = m.drop_first ? 1 : 0;
  if (!m.add) return LaunchCopies(a, lines, m.x.type, stream);
  return m.x.type == Type::kF32 ? LaunchSums<float>(a, lines, stream) : LaunchSums<bf16>(a, lines, stream);
}

cudaError_t LaunchRepeatNearest(const RepeatNearest& r, cudaStream_t stream) {
  if (!Valid(r.scale, r.channels) || r.x == nullptr || r.out == nullptr) return cudaErrorInvalidValue;
  Runs a = RunsOf(r.scale, r.channels, /*part=*/0, r.channels, r.channels);
  a.from = r.x;
  a.to = r.out;
  return LaunchCopies(a, OutFrames(r.scale, false) * OutHeight(r.scale), r.type, stream);
}

}  // namespace kinora::kernels
