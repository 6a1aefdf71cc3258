// Small renders after the load: they pay the costs of a first run, and their speed is the first estimate of how long
// requests take.
#ifndef KINORA_SERVER_WORKER_WARM_UP_H_
#define KINORA_SERVER_WORKER_WARM_UP_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "engine/request/model_description.h"
#include "server/worker/model_ranks.h"
#include "server/worker/speed.h"

namespace kinora {

struct WarmUpOptions {
  const ModelDescription& model;
  int64_t arena_bytes = 0;            // reserved on each rank; larger clips are left out
  std::function<void()> on_progress;  // called at the start of each stage and after each step, on rank 0
};

// Runs a smallest clip twice on every rank of the group, then denoises larger ones while that is quick, and records
// the seconds of their stages in `speed`. Then does the one-time work (Pipeline::DoAhead) for the usual sizes: each
// recipe's default and those that the model was trained for. Ranks in other processes run the same clips as rank 0, or
// fail with DeadlineExceeded if rank 0 does not choose the next one in time.
absl::Status WarmUp(ModelRanks& ranks, const WarmUpOptions& options, Speed& speed);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_WARM_UP_H_
