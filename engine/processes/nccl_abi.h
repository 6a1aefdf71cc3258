// The part of NCCL's C interface, version 2, that this engine calls, so that no build needs the library's header.
// tests/simt/nccl/nccl_abi_test.cc compares every value, size and parameter with the real header if it is installed.
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
// As GetVersion() reports it: 2.20, by which version non-blocking communicators and the settings below exist.
inline constexpr int kLeastVersion = 22000;
inline constexpr int kHeaderVersion = 22809;  // the version of Config below; the library also accepts older ones

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

// A handle that the library creates and destroys.
using Comm = struct CommOpaque*;

// ncclGetVersion and so on. A function added after kLeastVersion is null if the library lacks it.
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
  // Null before 2.28.
  Result (*AlltoAll)(const void* send, void* receive, size_t count, DataType type, Comm comm, cudaStream_t stream);
};

// Opens `file`, as dlopen finds it, and never closes it. Fails with FailedPrecondition, naming the remedy, if the
// library is missing, incomplete or too old.
absl::StatusOr<Functions> Open(const std::string& file);

}  // namespace kinora::nccl

#endif  // KINORA_ENGINE_PROCESSES_NCCL_ABI_H_
