// The models known to a frontend before any worker has joined: those described by the operator's files, and those that
// earlier runs left in the store.
#ifndef KINORA_SERVER_FRONTEND_KNOWN_MODELS_H_
#define KINORA_SERVER_FRONTEND_KNOWN_MODELS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/queue_metrics.h"

namespace kinora {

// Reads the files in `model_description`, each a ModelInfo in text or binary format. InvalidArgument lists each error
// with the field and the file.
absl::StatusOr<std::vector<v1::ModelInfo>> ReadModelDescriptions(const v1::FrontendConfig& config);

// Stores the descriptions, replacing what workers reported about these models before; creates the metric series of
// every model in the catalogue and returns these models; gives `queue` the run times of the last jobs. Blocks; called
// at the start.
absl::StatusOr<std::vector<v1::ModelInfo>> BeginWithKnownModels(const v1::FrontendConfig& config,
                                                                CatalogueStore& catalogue, JobStore& jobs,
                                                                FrontendMetrics& metrics, QueueMetrics& queue);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_KNOWN_MODELS_H_
