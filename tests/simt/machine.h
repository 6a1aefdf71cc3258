// Test only: the interface between the kernels' language (simt.h) and the machine that runs them (executor.h,
// launch.cc).
#ifndef KINORA_TESTS_SIMT_MACHINE_H_
#define KINORA_TESTS_SIMT_MACHINE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

// The caller's source location, for messages.
#define SIMT_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

// Excludes the simulation's own memory from ThreadSanitizer.
#if defined(__SANITIZE_THREAD__)
#define SIMT_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define SIMT_UNWATCHED
#endif

namespace kinora::simt {

struct Place {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
};
extern Place* here;  // of the running thread
SIMT_UNWATCHED inline const Place& Here() { return *here; }

// Operations at which a thread waits for others.
enum class Meet : uint8_t {
  kNothing,
  kBlock,
  kWarp,
  kShuffle,
  kUp,
  kDown,
  kXor,
  kBallot,
  kMultiply,  // from here on: matrices spread over a warp (warp_matrices.h)
  kLoadMatrices,
  kLoadTransposed,
};

void Barrier(const char* file, int line);
// Waits for every lane of `mask` to arrive with the same arguments except value and argument; groups of `width` lanes
// shuffle among themselves. Returns the value that a shuffle reads, or the votes.
uint64_t WarpMeet(Meet what, unsigned mask, uint64_t value, int argument, int width, const char* file, int line);

template <typename T>
T Shuffle(Meet what, unsigned mask, T value, int argument, int width, const char* file, int line) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = WarpMeet(what, mask, bits, argument, width, file, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Returns this block's shared memory for a declaration; null means the dynamic part. Fresh memory holds NaN.
void* Shared(const void* declaration, size_t bytes);

// Defers an asynchronous copy of 16 bytes. Returns false if the caller must copy now.
bool CopyLater(void* to, const void* from);
void CommitCopyGroup();
// Returns the next copy that must finish before at most `groups_left` groups are pending; false if there is none.
bool NextCopy(int groups_left, void** to, const void** from);

void Fence();

// Starts a launch; `body` holds the kernel's arguments. CheckArgument loses the device if an argument contains a host
// address.
void CheckArgument(const void* argument, size_t bytes);
struct LaunchShape {
  dim3 grid{}, block{};
  size_t shared = 0;   // dynamic shared memory, bytes
  bool early = false;  // its threads may run before earlier work is done, until they wait for it
};
cudaError_t Start(const LaunchShape& shape, cudaStream_t stream, const void* kernel, std::function<void()> body);
void WaitForPrevious();

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_MACHINE_H_
