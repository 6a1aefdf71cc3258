// Gathers the traces (trace.h) of ranks that are processes into one.
#ifndef KINORA_ENGINE_PARALLEL_GATHER_TRACE_H_
#define KINORA_ENGINE_PARALLEL_GATHER_TRACE_H_

#include "absl/status/status.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Called by every rank of exec.mesh.world(), each in its own process and tracing. Stops the trace on all ranks but 0
// and adds their tracks to rank 0's, timed from its start and as exact as the ranks' clocks. Sends pieces of at most 1
// MiB that fit the free part of exec.arena. Fails with the stream's failure, which is not agreed.
absl::Status GatherTrace(Exec& exec);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_GATHER_TRACE_H_
