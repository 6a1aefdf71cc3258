// The part of NCCL's C interface that this engine calls, version 2, so that no build needs the library's header.
// tests/simt/nccl/nccl_abi_test.cc holds every value, size and parameter to the real one where it is installed.
#ifndef KINORA_ENGINE_PROCESSES_NCCL_ABI_H_
#define KINORA_ENGINE_PROCESSES_NCCL_ABI_H_

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kinora::nccl {

inline constexpr char kLibrary[] = "libnccl.so.2";
// Of GetVersion(): a communicator made without waiting, and the settings below, came with 2.20 or before it.
inline constexpr int kLeastVersion = 22000;
inline constexpr int kHeaderVersion = 22809;  // whose Config this is; the library reads an older one too

enum class Result : uint32_t {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum class DataType : uint32_t { kInt8 = 0, kUint8 = 1, kInt32 = 2, kInt64 = 4, kFloat32 = 7, kBfloat16 = 9 };
enum class Reduction : uint32_t { kSum = 0 };
inline constexpr int kSymmetric = 1;              // of WindowRegister: all ranks register, at the same offsets
inline constexpr size_t kWindowAlignment = 4096;  // bytes, of a window's begin
inline constexpr int kCopyEngines = 2;            // Config::cta_policy: no multiprocessors where copy engines can do it
inline constexpr int kUnset = INT_MIN;

struct UniqueId {
  char internal[128];
};

struct Config {
  size_t size = sizeof(Config);
  uint32_t magic = 0xcafebeef;
  uint32_t version = kHeaderVersion;
  int blocking = kUnset;
  int cga_cluster_size = kUnset, min_ctas = kUnset, max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset, traffic_class = kUnset;
  const char* name = nullptr;
  int collnet_enable = kUnset;
  int cta_policy = kUnset;
  int shrink_share = kUnset, nvls_ctas = kUnset, channels_per_net_peer = kUnset, nvlink_centric_sched = kUnset;
};

// What the library makes and destroys.
using Comm = struct CommOpaque*;
using Window = struct WindowOpaque*;

// ncclGetVersion and so on. Those of a later version than kLeastVersion are null where the library lacks them.
struct Functions {
  Result (*GetVersion)(int* version);
  Result (*GetUniqueId)(UniqueId* id);
  const char* (*GetErrorString)(Result result);
  const char* (*GetLastError)(Comm comm);  // of this process; comm may be null
  Result (*CommInitRankConfig)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Result (*CommSplit)(Comm comm, int color, int key, Comm* part, Config* config);
  Result (*CommFinalize)(Comm comm);
  Result (*CommDestroy)(Comm comm);
  Result (*CommAbort)(Comm comm);
  Result (*CommGetAsyncError)(Comm comm, Result* error);
  Result (*MemAlloc)(void** memory, size_t bytes);
  Result (*MemFree)(void* memory);
  Result (*AllReduce)(const void* send, void* receive, size_t count, DataType type, Reduction op, Comm comm,
                      cudaStream_t stream);
  Result (*AllGather)(const void* send, void* receive, size_t send_count, DataType type, Comm comm,
                      cudaStream_t stream);
  Result (*Broadcast)(const void* send, void* receive, size_t count, DataType type, int root, Comm comm,
                      cudaStream_t stream);
  Result (*Send)(const void* send, size_t count, DataType type, int peer, Comm comm, cudaStream_t stream);
  Result (*Recv)(void* receive, size_t count, DataType type, int peer, Comm comm, cudaStream_t stream);
  Result (*GroupStart)();
  Result (*GroupEnd)();
  // Null before 2.27.
  Result (*CommWindowRegister)(Comm comm, void* memory, size_t bytes, Window* window, int flags);
  Result (*CommWindowDeregister)(Comm comm, Window window);
  // Null before 2.28.
  Result (*AlltoAll)(const void* send, void* receive, size_t count, DataType type, Comm comm, cudaStream_t stream);
};

// As dlopen finds `file`; opened once, never closed. FailedPrecondition: it is missing, incomplete or too old; the
// sentence says what to do.
absl::StatusOr<Functions> Open(const std::string& file);

}  // namespace kinora::nccl

#endif  // KINORA_ENGINE_PROCESSES_NCCL_ABI_H_
