// Test only: CUDA C++ for a host compiler, so that the kernels' own source runs on a CPU, thread by thread.
// kernels/device/device.h includes this file unless nvcc compiles.
//
// Each thread of a block is a fiber (fiber.h). It runs until it waits for other threads (a barrier, a warp operation)
// or ends; then another ready fiber of the block runs, chosen at random from the seed. Kernels must therefore not spin
// on memory. If a kernel omits an ordering, some seed runs it in a wrong order, and ThreadSanitizer reports it
// immediately. Errors that would hang a device, or that a device would not detect, end the launch and lose the device
// with a message that names threads, files and lines.
//
// Host types and prototypes come from the toolkit's own headers; runtime_*.cc define the functions.
#ifndef KINORA_TESTS_SIMT_SIMT_H_
#define KINORA_TESTS_SIMT_SIMT_H_
// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's own names
#define __launch_bounds__(...)
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "kernels/early_launch.h"
#include "tests/simt/machine.h"
#include "tests/simt/memory.h"
#include "tests/simt/warp_matrices.h"

using std::max;
using std::min;

// A host compiler would otherwise silently make it a local array.
#undef __shared__
#define __shared__ static_assert(false, "use SHARED_ARRAY or DynamicShared");
#define SHARED_ARRAY(T, name, n)    \
  static const char name##_tag = 0; \
  T* const name = static_cast<T*>(::kinora::simt::Shared(&name##_tag, sizeof(T) * (n)))

#define threadIdx (::kinora::simt::Here().thread)
#define blockIdx (::kinora::simt::Here().block)
#define blockDim (::kinora::simt::Here().block_dim)
#define gridDim (::kinora::simt::Here().grid_dim)

// ---- Barriers and warp operations

inline void __syncthreads(SIMT_AT) { kinora::simt::Barrier(file, line); }
inline void __syncwarp(unsigned mask = ~0u, SIMT_AT) {
  kinora::simt::WarpMeet(kinora::simt::Meet::kWarp, mask, 0, 0, 32, file, line);
}
template <typename T>
T __shfl_sync(unsigned mask, T v, int lane, int width = 32, SIMT_AT) {
  return kinora::simt::Shuffle(kinora::simt::Meet::kShuffle, mask, v, lane, width, file, line);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, int by, int width = 32, SIMT_AT) {
  return kinora::simt::Shuffle(kinora::simt::Meet::kUp, mask, v, by, width, file, line);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T v, int by, int width = 32, SIMT_AT) {
  return kinora::simt::Shuffle(kinora::simt::Meet::kDown, mask, v, by, width, file, line);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32, SIMT_AT) {
  return kinora::simt::Shuffle(kinora::simt::Meet::kXor, mask, v, by, width, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_AT) {
  return static_cast<unsigned>(
      kinora::simt::WarpMeet(kinora::simt::Meet::kBallot, mask, predicate != 0 ? 1 : 0, 0, 32, file, line));
}
inline int __any_sync(unsigned mask, int predicate, SIMT_AT) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, SIMT_AT) {
  return __ballot_sync(mask, predicate, file, line) == mask ? 1 : 0;
}

// ---- Arithmetic

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }  // never fused with surrounding operations
inline float __fdividef(float x, float y) { return x / y; }
// NOLINTEND(bugprone-reserved-identifier)
// ---- Functions that kernels/device/ptx.h defines under nvcc

template <typename T>
T* DynamicShared() {
  return static_cast<T*>(kinora::simt::Shared(nullptr, 0));
}
// Runs as late as possible, at the wait for its group, or earlier at random.
inline void CopyAsync16(void* to, const void* from) {
  if (!kinora::simt::CopyLater(to, from)) *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
}
inline void CommitCopies() { kinora::simt::CommitCopyGroup(); }
template <int kLeft>
void WaitCopies() {
  void* to;
  const void* from;
  while (kinora::simt::NextCopy(kLeft, &to, &from)) *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
}
inline void MultiplyTiles(float (&d)[4], const unsigned (&a)[4], unsigned b_low, unsigned b_high, SIMT_AT) {
  kinora::simt::TileProduct product{.d = {d[0], d[1], d[2], d[3]}, .a = {a[0], a[1], a[2], a[3]}, .b = {b_low, b_high}};
  kinora::simt::MeetWith(kinora::simt::Meet::kMultiply, &product, file, line);
  std::memcpy(d, product.d, sizeof d);
}
inline void LoadMatrices(unsigned (&to)[4], const void* row, SIMT_AT) {
  kinora::simt::MatrixLoad load{.row = *static_cast<const uint4*>(row)};
  kinora::simt::MeetWith(kinora::simt::Meet::kLoadMatrices, &load, file, line);
  std::memcpy(to, load.to, sizeof to);
}
inline void LoadTransposed(unsigned (&to)[4], const void* row, SIMT_AT) {
  kinora::simt::MatrixLoad load{.row = *static_cast<const uint4*>(row)};
  kinora::simt::MeetWith(kinora::simt::Meet::kLoadTransposed, &load, file, line);
  std::memcpy(to, load.to, sizeof to);
}
inline float FastExp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;  // a NaN stays
}
inline void WaitForPrevious() { kinora::simt::WaitForPrevious(); }
inline unsigned long long DeviceNanoseconds() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch() /
                                         std::chrono::nanoseconds(1));
}

namespace kinora::simt {

template <typename... P, typename... A>
cudaError_t StartKernel(bool early, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                        A&&... arguments) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments are plain values");
  std::tuple<P...> kept(static_cast<P>(arguments)...);
#ifndef __clang__  // which has no way to clear padding, and that may hold half an address. g++ 12 clears wrong bytes of
                   // structs that hold arrays of structs: arguments hold none
  std::apply([](P&... p) { ((__builtin_clear_padding(&p), CheckArgument(&p, sizeof p)), ...); }, kept);
#endif
  const LaunchShape shape{.grid = grid, .block = block, .shared = shared, .early = early};
  return Start(shape, stream, reinterpret_cast<const void*>(kernel), [kernel, kept] { std::apply(kernel, kept); });
}

}  // namespace kinora::simt

template <typename... P, typename... A>
cudaError_t Launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A&&... arguments) {
  return kinora::simt::StartKernel(false, kernel, grid, block, shared, stream, static_cast<A&&>(arguments)...);
}
template <typename... P, typename... A>
cudaError_t LaunchEarly(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                        A&&... arguments) {
  return kinora::simt::StartKernel(kinora::kernels::early_launch_allowed, kernel, grid, block, shared, stream,
                                   static_cast<A&&>(arguments)...);
}

#endif  // KINORA_TESTS_SIMT_SIMT_H_
