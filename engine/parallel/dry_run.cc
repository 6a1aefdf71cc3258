#include "engine/parallel/dry_run.h"

#include "engine/ops/dry_backend.h"

namespace kinora {

int64_t DryRunArenaBytes(DType dtype, absl::FunctionRef<void(Exec&)> body) {
  DryBackend backend;
  Arena arena = Arena::Dry();
  const auto mesh = Mesh::Single();
  Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = *mesh, .dtype = dtype};
  body(exec);
  return arena.peak();
}

}  // namespace kinora
