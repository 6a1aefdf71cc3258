// One device as the engine uses it: its ops, its memory, and the host's side of both.
//
//   KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend("cpu", {.threads = 4}));
//   KINORA_ASSIGN_OR_RETURN(Buffer memory, backend->Allocate(bytes, "activations"));
//   backend->ops().Matmul(…);
//
// Two kinds of memory. Device memory is what ops and collectives work on: the host never reads or writes it, but copies
// (Stream::CopyFromHost, CopyToHost). Host memory is the host's alone; that of AllocateHost is pinned where copies gain
// by it. On the CPU both are the same, and copies that are not needed are not made; callers do not ask.
//
// A backend is linked or not: cpu_backend.cc; the folder cuda, or no_cuda_backend.cc.
#ifndef KINORA_ENGINE_OPS_BACKEND_H_
#define KINORA_ENGINE_OPS_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/base/memory.h"
#include "engine/ops/ops.h"
#include "engine/tensor/buffer.h"

namespace kinora {

struct BackendOptions {
  int threads = 1;  // of the host
  // Where a backend keeps what it measured of its device; "": $XDG_CACHE_HOME/kinora, else ~/.cache/kinora.
  std::string cache_folder{};
};

// What a plan must know of a backend, without its device.
struct BackendTraits {
  std::string device;  // as OpenBackend names it
  const WeightLayout* weights = nullptr;
  bool unified_memory = false;  // device memory is host memory: one arena serves both
  bool branches = false;        // whether Backend::branch gives one
  int64_t workspace_bytes = 0;  // reserved by the backend for itself
  bool evicts_weights = false;  // to host memory, and back for as long as they are used (Ops::EvictWeight)
  int64_t driver_bytes = 0;     // not reserved, but to be left free: the driver takes them as it goes
};

// Used by one thread at a time, but for what says otherwise.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendTraits& traits() const = 0;
  // How much device memory this process can get, and what sets that limit.
  virtual MemoryLimit usable_memory() const = 0;

  // The backend's first stream. Lives as long as the backend.
  virtual Ops& ops() = 0;
  // Ops of a second stream, with workspaces of their own, for work beside that of ops() (Concurrently). The same
  // weights serve both. Null: there is none.
  virtual Ops* branch() { return nullptr; }

  // Device memory and host memory, 64-byte aligned, contents undefined; of host memory 64 bytes after the end are
  // readable. The buffer gives it back and must not outlive the backend. ResourceExhausted with the size and `what` it
  // is for.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what) = 0;
  virtual absl::StatusOr<Buffer> AllocateHost(int64_t bytes, std::string_view what) = 0;
  // Host memory's contents in device memory, complete on return; the host buffer itself where that is the same.
  virtual absl::StatusOr<Buffer> Upload(Buffer host, std::string_view what) = 0;

  // Calls task(i) once for every i in [0, tasks) on the host's threads, outside the stream; returns when all are done.
  // Which thread runs which task varies.
  virtual void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) = 0;
};

// device: "cpu", "cuda", or "" for cuda if this build has it and a device is usable (a simulated one is not), else cpu.
// InvalidArgument for other names, Unimplemented for what this build lacks, both naming the field `device`; whatever
// the device says of itself.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device, const BackendOptions& options);
// Needs neither the device nor a build that has it: InvalidArgument for other names alone.
absl::StatusOr<BackendTraits> TraitsOf(std::string_view device, const BackendOptions& options);
// For people: "cpu (AVX-512, 2 threads)", "NVIDIA H100 80GB HBM3". The same errors.
absl::StatusOr<std::string> DeviceName(std::string_view device, const BackendOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_BACKEND_H_
