// What a frontend knows before any worker has joined: models that an operator describes by files, and what earlier runs
// left in the store.
#ifndef KINORA_SERVER_FRONTEND_KNOWN_MODELS_H_
#define KINORA_SERVER_FRONTEND_KNOWN_MODELS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/queue_metrics.h"

namespace kinora {

// The files of `model_description`, each a ModelInfo in text format or in binary. InvalidArgument, each error with the
// field's name and the file.
absl::StatusOr<std::vector<v1::ModelInfo>> ReadModelDescriptions(const v1::FrontendConfig& config);

// Blocks, for the start. Stores the descriptions, each in the place of what a worker has said of that model before;
// begins the series of all models that the store knows, which it returns; tells `queue` how long the last jobs ran.
absl::StatusOr<std::vector<v1::ModelInfo>> BeginWithKnownModels(const v1::FrontendConfig& config, JobStore& store,
                                                                FrontendMetrics& metrics, QueueMetrics& queue);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_KNOWN_MODELS_H_
