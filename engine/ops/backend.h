// A device as the engine uses it: its ops, its memory, and the host's memory and threads.
//
//   KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend("cpu", {.threads = 4}));
//   KINORA_ASSIGN_OR_RETURN(Buffer memory, backend->Allocate(bytes, "activations"));
//   backend->ops().Matmul(…);
//
// There are two kinds of memory. Ops and collectives work on device memory, which the host accesses only through copies
// (Stream::CopyFromHost, CopyToHost). Host memory is accessed only by the host; AllocateHost pins it where that makes
// copies faster. On the CPU both are the same memory and needless copies are skipped; callers need not distinguish.
//
// The build selects the backends: cpu_backend.cc is always linked, and either the folder cuda or no_cuda_backend.cc.
#ifndef KINORA_ENGINE_OPS_BACKEND_H_
#define KINORA_ENGINE_OPS_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/base/memory.h"
#include "engine/ops/cuda_switches.h"
#include "engine/ops/ops.h"
#include "engine/tensor/buffer.h"

namespace kinora {

struct BackendOptions {
  int threads = 1;  // host threads
  // Folder where a backend keeps measurements of its device. Empty: $XDG_CACHE_HOME/kinora, else ~/.cache/kinora.
  std::string cache_folder{};
  CudaFlags cuda{};  // other backends ignore them
};

// Properties of a backend that planning needs, available without its device.
struct BackendTraits {
  std::string device;  // the name that OpenBackend accepts
  const WeightLayout* weights = nullptr;
  bool unified_memory = false;  // device memory is host memory: one arena serves both
  bool branches = false;        // whether Backend::branch returns a second stream
  int64_t workspace_bytes = 0;  // reserved by the backend for its own use
  bool evicts_weights = false;  // can keep weights in host memory and fetch them for use (Ops::EvictWeight)
  int64_t driver_bytes = 0;     // not reserved, but must be left free for the driver's own allocations
};

// Used by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendTraits& traits() const = 0;
  // Returns how much device memory this process can use, and what sets that limit.
  virtual MemoryLimit usable_memory() const = 0;

  // Returns the ops of the first stream, which live as long as the backend.
  virtual Ops& ops() = 0;
  // Returns ops of a second stream, with their own workspaces, for work in parallel with ops() (Concurrently). Both use
  // the same weights. Null if the backend has no second stream.
  virtual Ops* branch() { return nullptr; }

  // Allocate device memory and host memory, 64-byte aligned, with undefined contents; 64 bytes past the end of host
  // memory are readable. The buffer releases the memory and must not outlive the backend. Fail with ResourceExhausted,
  // naming the size and `what` it is for, if the memory cannot be reserved.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what) = 0;
  virtual absl::StatusOr<Buffer> AllocateHost(int64_t bytes, std::string_view what) = 0;
  // Returns a copy of `host` in device memory, complete on return, or `host` itself where device memory is host memory.
  virtual absl::StatusOr<Buffer> Upload(Buffer host, std::string_view what) = 0;

  // Calls task(i) once for every i in [0, tasks) on the host's threads, outside the stream; returns when all are done.
  // The assignment of tasks to threads varies.
  virtual void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) = 0;
};

// device: "cpu", "cuda", or "" for cuda if this build has it and a real (not simulated) device is usable, else cpu.
// Fails with InvalidArgument for other names and Unimplemented for a backend that this build lacks, both naming the
// field `device`; also with the device's own errors.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device, const BackendOptions& options);
// Needs neither the device nor a build that supports it. Fails with InvalidArgument for other names, and never
// otherwise.
absl::StatusOr<BackendTraits> TraitsOf(std::string_view device, const BackendOptions& options);
// Returns a name for people: "cpu (AVX-512, 2 threads)", "NVIDIA H100 80GB HBM3". Fails as OpenBackend does.
absl::StatusOr<std::string> DeviceName(std::string_view device, const BackendOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_BACKEND_H_
