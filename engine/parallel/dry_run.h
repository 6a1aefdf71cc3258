// Runs a part of the model on shapes alone, to determine the memory that it needs.
#ifndef KINORA_ENGINE_PARALLEL_DRY_RUN_H_
#define KINORA_ENGINE_PARALLEL_DRY_RUN_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Returns the peak arena use of `body`, in bytes, on one rank. Tensors passed to it have no memory.
int64_t DryRunArenaBytes(DType dtype, absl::FunctionRef<void(Exec&)> body);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_DRY_RUN_H_
