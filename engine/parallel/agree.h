// One outcome for all ranks of a run.
#ifndef KINORA_ENGINE_PARALLEL_AGREE_H_
#define KINORA_ENGINE_PARALLEL_AGREE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Rank 0's status on every rank of exec.mesh.world(): OK on all, or rank 0's own there and Cancelled elsewhere, so that
// all leave at the same place and the group stays usable. What the other ranks pass is not looked at. Waits for the
// device; costs nothing in a group of one or in a dry run.
absl::Status AgreeWithRankZero(Exec& exec, const absl::Status& status);

// Runs `action` on rank 0 alone and agrees on how it went.
absl::Status OnRankZero(Exec& exec, absl::FunctionRef<absl::Status()> action);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_AGREE_H_
