#include "engine/parallel/dry_run.h"

#include "engine/ops/dry_ops.h"

namespace kinora {

int64_t DryRunArenaBytes(DType dtype, absl::FunctionRef<void(Exec&)> body) {
  DryOps ops;
  Arena arena = Arena::Dry();
  const auto mesh = Mesh::Single();
  Exec exec{.ops = ops, .arena = arena, .mesh = *mesh, .dtype = dtype};
  body(exec);
  return arena.peak();
}

}  // namespace kinora
