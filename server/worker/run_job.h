// One run of rank 0, from the Run message to the durable artifact: the model's clip goes into a file of the asked
// container inside the artifact store's directory, and from there under its key.
#ifndef KINORA_SERVER_WORKER_RUN_JOB_H_
#define KINORA_SERVER_WORKER_RUN_JOB_H_

#include <atomic>
#include <functional>

#include "kinora/v1/worker.pb.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/metrics.h"
#include "server/worker/model.h"

namespace kinora {

struct RunContext {
  Model& model;
  DirectoryArtifactStore& store;
  WorkerMetrics& metrics;
  std::function<void(const v1::WorkerMessage&)> send;  // stage, step and resolved marks
  const std::atomic<bool>& cancelled;                  // looked at after each step
  std::atomic<int64_t>& units_done;                    // grows with each of them
};

// The artifacts in the result are durable. Its error: CANCELLED after `cancelled`, else the model's, the sink's or the
// store's. What a run that failed had written is removed.
v1::RunResult RunJob(const RunContext& context, const v1::Run& run);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RUN_JOB_H_
