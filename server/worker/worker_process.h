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

// `rank`: of the group that holds the model together. `on_progress`: to be called now and then by a load that does
// something else than reading files.
using LoadModel = std::function<absl::StatusOr<std::unique_ptr<Model>>(
    const v1::WorkerConfig&, const RankContext& rank, WorkerMetrics&, const std::function<void()>& on_progress)>;

// What --check-config asks beyond the fields: whether the model could be loaded.
using CheckModel = std::function<absl::Status(const v1::WorkerConfig&)>;

// What --describe prints.
using TellModel = std::function<absl::StatusOr<v1::ModelInfo>(const v1::WorkerConfig&)>;

// What a program does with its model.
struct ModelProgram {
  LoadModel load;
  CheckModel check;
  TellModel describe;
};

// Runs until the frontend or a signal ends it. `arguments`: argv without the program. Exit status: 0 told to leave, or
// the supervisor has gone; 2 a bad flag, configuration or model; 75, of a worker that nobody supervises: its group is
// lost, its frontend has gone or will not have it now, start it again; 1 anything else.
int RunWorker(const std::vector<std::string>& arguments, const ModelProgram& model);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_WORKER_PROCESS_H_
