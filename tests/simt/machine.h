// Test only: what the kernels' language (simt.h) asks of the machine that runs them (executor.h, launch.cc).
#ifndef KINORA_TESTS_SIMT_MACHINE_H_
#define KINORA_TESTS_SIMT_MACHINE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

// The caller's place, for messages.
#define SIMT_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

// What the simulation keeps for itself is not the kernels' memory.
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
extern Place* here;  // of the thread that runs
SIMT_UNWATCHED inline const Place& Here() { return *here; }

// What a thread waits for others at.
enum class Meet : uint8_t { kNothing, kBlock, kWarp, kShuffle, kUp, kDown, kXor, kBallot };

void Barrier(const char* file, int line);
// Waits for every lane of `mask` to come with the same arguments but value and argument; `width` lanes shuffle among
// themselves. What a shuffle reads, or the votes.
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

// Of this block, by declaration; null: the dynamic part. Holds NaN until it is written.
void* Shared(const void* declaration, size_t bytes);

// Asynchronous copies of 16 bytes. False: to be made now.
bool CopyLater(void* to, const void* from);
void CommitCopyGroup();
// The next copy that must be done before all but the last `groups_left` groups are; false: none.
bool NextCopy(int groups_left, void** to, const void** from);

void Fence();

// A launch. The body holds its own arguments; CheckArgument loses the device if one of them is an address of the
// host's.
void CheckArgument(const void* argument, size_t bytes);
struct LaunchShape {
  dim3 grid{}, block{};
  size_t shared = 0;   // dynamic
  bool early = false;  // its threads may run before what was enqueued before them is done, until they wait for it
};
cudaError_t Start(const LaunchShape& shape, cudaStream_t stream, const void* kernel, std::function<void()> body);
void WaitForPrevious();

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_MACHINE_H_
