// One trace (trace.h) of ranks that are processes.
#ifndef KINORA_ENGINE_PARALLEL_GATHER_TRACE_H_
#define KINORA_ENGINE_PARALLEL_GATHER_TRACE_H_

#include "absl/status/status.h"
#include "engine/parallel/exec.h"

namespace kinora {

// By every rank of exec.mesh.world(), each in a process of its own and in a trace, which ends on all but rank 0: there
// the tracks of the others have become part of it, timed from its start. As exact as the ranks' clocks. In pieces that
// fit what is free in exec.arena, 1 MiB each at most. The stream's failure, which is not agreed.
absl::Status GatherTrace(Exec& exec);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_GATHER_TRACE_H_
