// The resources that a layer uses.
#ifndef KINORA_ENGINE_PARALLEL_EXEC_H_
#define KINORA_ENGINE_PARALLEL_EXEC_H_

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "engine/base/range_sink.h"
#include "engine/base/trace.h"
#include "engine/ops/backend.h"
#include "engine/parallel/mesh.h"
#include "engine/parallel/taps.h"

namespace kinora {

struct Exec {
  Backend& backend;
  // Device memory, on which ops work.
  Arena& arena;
  // Host memory, pinned where that helps, for the host side of copies and for host computation. The same arena as
  // `arena` if device memory is host memory (BackendTraits), so its scopes must nest with those of `arena`.
  Arena& host;
  const Mesh& mesh;
  DType dtype = DType::kF32;  // of activations
  Taps* taps = nullptr;
  Ops& ops = backend.ops();
};

// Runs a and b. In a capture, if the backend has a branch, they become parallel branches of the graph. Otherwise a runs
// before b. Both run after earlier work and before later work. Neither may write memory that the other reads or writes.
// As a branch, b gets an Exec with its own ops, and its memory does not overlap a's; the memory of both is free on
// return. b must make no collectives: communicators serve one stream, so that all ranks make the same calls in the same
// order.
void Concurrently(Exec& exec, absl::FunctionRef<void(Exec&)> a, absl::FunctionRef<void(Exec&)> b);

// A range for profilers (range_sink.h) around what the thread enqueues while this lives. None if ops are only counted.
class EnqueueRange {
 public:
  EnqueueRange(const Exec& exec, const char* name, int64_t number = -1)
      : range_(exec.ops.dry() ? nullptr : CurrentRangeSink(), name, number) {}

 private:
  const HostRange range_;
};

// What the thread enqueues while this lives belongs to block `number` of a transformer, in traces and for profilers.
class InBlock {
 public:
  InBlock(const Exec& exec, int64_t number) : place_({.block = number}), range_(exec, "block", number) {}

 private:
  const InTracePlace place_;
  const EnqueueRange range_;
};

// Passes `value` to the taps, if there are any.
inline void Tap(Exec& exec, std::string_view name, const Tensor& value) {
  if (exec.taps != nullptr) exec.taps->Record(exec.ops.stream(), name, value);
}

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_EXEC_H_
