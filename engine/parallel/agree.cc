#include "engine/parallel/agree.h"

#include "engine/base/status_macros.h"

namespace kinora {

absl::Status AgreeWithRankZero(Exec& exec, const absl::Status& status) {
  Communicator& world = exec.mesh.world();
  if (world.size() == 1) return status;
  Stream& stream = exec.ops.stream();
  ArenaScope temp(exec.arena);
  const Tensor word = temp.Alloc(DType::kF32, {1});  // in the plan too
  if (exec.ops.dry()) return status;
  float go_on = status.ok() ? 1.0f : 0.0f;
  stream.CopyFromHost(&go_on, word);
  world.Broadcast(0, word, stream);
  stream.CopyToHost(word, &go_on);
  KINORA_RETURN_IF_ERROR(stream.Synchronize());
  if (world.rank() == 0) return status;
  return go_on != 0.0f ? absl::OkStatus() : absl::CancelledError("rank 0 ended the run");
}

absl::Status OnRankZero(Exec& exec, absl::FunctionRef<absl::Status()> action) {
  return AgreeWithRankZero(exec, exec.mesh.world().rank() == 0 ? action() : absl::OkStatus());
}

}  // namespace kinora
