// A worker's configuration as options of the engine, and what can be checked and reported before a weight is read.
#ifndef KINORA_SERVER_WORKER_MODEL_OPTIONS_H_
#define KINORA_SERVER_WORKER_MODEL_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/pipeline.h"
#include "kinora/v1/config.pb.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

struct ModelOptions {
  PipelineOptions pipeline;  // of each rank; the arenas and the residence of the text encoder are not planned yet
  MeshShape shape;           // of the whole group
};

// Opens no file. Fails with InvalidArgument naming the field of the configuration.
absl::StatusOr<ModelOptions> ReadModelOptions(const v1::WorkerConfig& config);

// Fails with InvalidArgument naming `ranks` if a group of `world_size` processes on `device` cannot form the shape.
absl::Status CheckRanks(const v1::WorkerConfig& config, const MeshShape& shape, const std::string& device,
                        int world_size);

// Returns the errors of PipelineModel::Load that show in the device's name and in the files' headers and
// configuration. Reads no weights.
absl::Status CheckModelConfig(const v1::WorkerConfig& config);

// Returns the model that PipelineModel::Describe will return, without the digests of its files and with max_tokens 0,
// because that number depends on the memory. Reads headers and configuration only.
absl::StatusOr<v1::ModelInfo> DescribeModelFiles(const v1::WorkerConfig& config);

// Returns the configured model_id, or else the name of the first path in `model`.
std::string ModelId(const v1::WorkerConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_OPTIONS_H_
