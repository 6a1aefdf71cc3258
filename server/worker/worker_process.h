// The process around a rank: configuration, lifeline, signals, HTTP pages, the Join stream and the model.
#ifndef KINORA_SERVER_WORKER_WORKER_PROCESS_H_
#define KINORA_SERVER_WORKER_WORKER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "server/common/metrics.h"
#include "server/worker/model.h"
#include "server/worker/rank.h"

namespace kinora {

// Loads this process's part of the model. `rank`: this process in the group that holds the model together. The load
// must call `on_progress` now and then while it does something other than reading files.
using LoadModel = std::function<absl::StatusOr<std::unique_ptr<Model>>(
    const v1::WorkerConfig&, const RankContext& rank, WorkerMetrics&, const std::function<void()>& on_progress)>;

// Checks for --check-config whether the model could be loaded; the fields of the configuration have been checked.
using CheckModel = std::function<absl::Status(const v1::WorkerConfig&)>;

// Returns the description that --describe prints.
using TellModel = std::function<absl::StatusOr<v1::ModelInfo>(const v1::WorkerConfig&)>;

// The functions of a worker program that depend on its kind of model.
struct ModelProgram {
  LoadModel load;
  CheckModel check;
  TellModel describe;
};

// Runs a worker until the frontend or a signal ends it. `arguments`: argv without the program. Returns the exit status:
//   0   the frontend or a signal stopped the worker, or its supervisor has ended
//   2   a flag, the configuration or the model is invalid
//   75  only without a supervisor: the group is lost, or the frontend has gone or does not accept the worker now; start
//       the worker again
//   1   any other failure
int RunWorker(const std::vector<std::string>& arguments, const ModelProgram& model);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_WORKER_PROCESS_H_
