// All that a layer may ask for.
#ifndef KINORA_ENGINE_PARALLEL_EXEC_H_
#define KINORA_ENGINE_PARALLEL_EXEC_H_

#include <string_view>

#include "absl/functional/function_ref.h"
#include "engine/ops/backend.h"
#include "engine/parallel/mesh.h"
#include "engine/parallel/taps.h"

namespace kinora {

struct Exec {
  Backend& backend;
  // Device memory: what ops work on.
  Arena& arena;
  // Host memory, pinned where that helps: the host's side of copies, and what the host computes. The same arena where
  // device memory is host memory (BackendTraits), so its scopes must nest with those of `arena`.
  Arena& host;
  const Mesh& mesh;
  DType dtype = DType::kF32;  // of activations
  Taps* taps = nullptr;
  Ops& ops = backend.ops();
};

// Runs a and b: beside each other where the backend has a branch, in a capture, which keeps them as branches of its
// graph; a, then b elsewhere, and always in a mesh of more than one rank, whose communicators serve one stream. Both
// come after what was enqueued before, and what is enqueued afterwards comes after both. Neither may write what the
// other reads or writes. b gets an Exec with ops of its own, and its memory lies beside a's; that of both is free on
// return.
void Concurrently(Exec& exec, absl::FunctionRef<void(Exec&)> a, absl::FunctionRef<void(Exec&)> b);

// Shows `value` to whoever listens; nothing otherwise.
inline void Tap(Exec& exec, std::string_view name, const Tensor& value) {
  if (exec.taps != nullptr) exec.taps->Record(exec.ops.stream(), name, value);
}

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_EXEC_H_
