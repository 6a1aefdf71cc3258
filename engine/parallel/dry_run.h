// Runs a piece of the model on shapes alone, to learn what memory it takes.
#ifndef KINORA_ENGINE_PARALLEL_DRY_RUN_H_
#define KINORA_ENGINE_PARALLEL_DRY_RUN_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Most bytes of the arena that `body` has in use at once, on one rank. Tensors it is given have no memory.
int64_t DryRunArenaBytes(DType dtype, absl::FunctionRef<void(Exec&)> body);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_DRY_RUN_H_
