#include "tests/testing/model_rig.h"

#include <cstring>
#include <utility>

namespace kinora {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

// Unified memory is filled here; fresh memory of both devices with separate memory already holds NaN.
Arena NanArena(Backend& backend, int64_t bytes) {
  Buffer memory = OrDie(backend.Allocate(bytes, "activations of a test"));
  if (backend.traits().unified_memory) std::memset(memory.data(), 0xff, bytes);
  return Arena(std::move(memory));
}

std::optional<Arena> HostArena(Backend& backend, int64_t bytes) {
  if (backend.traits().unified_memory) return std::nullopt;
  return Arena(OrDie(backend.AllocateHost(bytes, "the host's side of a test")));
}

}  // namespace

ModelRig::ModelRig(const TestedBackend& on, DType dtype, Taps* taps, const Mesh* on_mesh, int64_t arena_bytes)
    : Device(on),
      tolerance(Tolerance(on, dtype)),
      mesh(on_mesh != nullptr ? *on_mesh : *alone),
      arena(NanArena(backend(), arena_bytes)),
      host(HostArena(backend(), arena_bytes)),
      exec{.backend = backend(),
           .arena = arena,
           .host = host.has_value() ? *host : arena,
           .mesh = mesh,
           .dtype = dtype,
           .taps = taps} {}

WeightLoader ModelRig::Open(const ModelFiles& files) {
  return OrDie(WeightLoader::Open(OrDie(Checkpoint::Open(files)), mesh, backend(), exec.dtype));
}

}  // namespace kinora
