// Converts kinora-render's request for the engine.
#ifndef KINORA_SERVER_RENDER_RENDER_REQUEST_H_
#define KINORA_SERVER_RENDER_RENDER_REQUEST_H_

#include "absl/status/statusor.h"
#include "engine/pipeline/pipeline.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Reads the headers of `pipeline`'s files only if a guidance keeps the recipe's defaults. Errors: those of
// DescribeFiles and ToGenerationRequest.
absl::StatusOr<GenerationRequest> ToRenderRequest(v1::Generation generation, const PipelineOptions& pipeline);

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_RENDER_REQUEST_H_
