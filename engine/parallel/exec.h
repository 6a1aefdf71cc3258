// All that a layer may ask for.
#ifndef KINORA_ENGINE_PARALLEL_EXEC_H_
#define KINORA_ENGINE_PARALLEL_EXEC_H_

#include <string_view>

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

// Shows `value` to whoever listens; nothing otherwise.
inline void Tap(Exec& exec, std::string_view name, const Tensor& value) {
  if (exec.taps != nullptr) exec.taps->Record(exec.ops.stream(), name, value);
}

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_EXEC_H_
