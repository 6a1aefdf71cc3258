// The memory that a worker sets aside at load: for activations, and for the decoded inputs of a request.
#ifndef KINORA_SERVER_WORKER_WORKER_MEMORY_H_
#define KINORA_SERVER_WORKER_WORKER_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/pipeline/pipeline.h"
#include "server/worker/model_ranks.h"

namespace kinora {

struct WorkerMemory {
  int64_t arena_bytes = 0;       // of each rank's device memory, reserved for activations
  int64_t host_arena_bytes = 0;  // of host memory, reserved for each rank's buffers of copies
  int64_t input_bytes = 0;       // of host memory, for the decoded inputs of one request
};

// Plans the memory of every rank of the group, and sets the arenas and text_encoder of `options` accordingly. All ranks
// plan with the least memory of any of them, so a request that fits one rank fits all. memory_share: the fraction of
// the machine's memory that the group may use. Fails with ResourceExhausted if the device cannot hold the model and its
// smallest clip.
absl::StatusOr<WorkerMemory> PlanWorkerMemory(const ModelRanks& ranks, double memory_share, PipelineOptions& options);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_WORKER_MEMORY_H_
