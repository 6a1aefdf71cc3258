#include "engine/parallel/exec.h"

namespace kinora {

void Concurrently(Exec& exec, absl::FunctionRef<void(Exec&)> a, absl::FunctionRef<void(Exec&)> b) {
  Ops* const ops = exec.backend.branch();
  Stream& stream = exec.ops.stream();
  // A dry run forks too, so that its plan also holds with a graph. Ops other than the backend's belong to a branch or a
  // bench, which do not fork.
  const bool forks = ops != nullptr && &exec.ops == &exec.backend.ops() && (stream.capturing() || exec.ops.dry());
  if (!forks) {
    a(exec);
    b(exec);
    return;
  }
  ArenaScope scope(exec.arena);
  Exec branch{.backend = exec.backend,
              .arena = exec.arena,
              .host = exec.host,
              .mesh = exec.mesh,
              .dtype = exec.dtype,
              .taps = exec.taps,
              .ops = *ops};
  stream.Fork(ops->stream());
  exec.arena.KeepAllOf([&] { a(exec); });
  b(branch);
  stream.Join(ops->stream());
}

}  // namespace kinora
