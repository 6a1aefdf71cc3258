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

// Returns the pinned memory of each rank for copies of weights without LoRAs: half of what the rank's share of `host`
// bytes leaves beside the `taken` bytes that it is planned for. The other half is for the files' pages.
int64_t CleanHostBytes(int64_t host, int ranks, int64_t taken);

// Plans the memory of every rank of the group, and sets the arenas, text_encoder and clean_weights of `options`. All
// ranks plan with the least memory of any of them, so a request that fits one rank fits all. memory_share: the fraction
// of the machine's memory that the group may use. Fails with ResourceExhausted if the device cannot hold the model and
// its smallest clip.
absl::StatusOr<WorkerMemory> PlanWorkerMemory(const ModelRanks& ranks, double memory_share, PipelineOptions& options);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_WORKER_MEMORY_H_
