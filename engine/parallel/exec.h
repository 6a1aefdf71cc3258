// All that a layer may ask for.
#ifndef KINORA_ENGINE_PARALLEL_EXEC_H_
#define KINORA_ENGINE_PARALLEL_EXEC_H_

#include <string_view>

#include "engine/ops/ops.h"
#include "engine/parallel/mesh.h"
#include "engine/parallel/taps.h"

namespace kinora {

struct Exec {
  Ops& ops;
  Arena& arena;
  const Mesh& mesh;
  DType dtype = DType::kF32;  // of activations
  Taps* taps = nullptr;
};

// Shows `value` to whoever listens; nothing otherwise.
inline void Tap(Exec& exec, std::string_view name, const Tensor& value) {
  if (exec.taps != nullptr) exec.taps->Record(name, value);
}

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_EXEC_H_
