#include "server/render/render_request.h"

#include "engine/base/status_macros.h"
#include "server/request/request_conversion.h"

namespace kinora {

absl::StatusOr<GenerationRequest> ToRenderRequest(v1::Generation generation, const PipelineOptions& pipeline) {
  if (generation.video_guidance().keep_defaults() || generation.audio_guidance().keep_defaults()) {
    KINORA_ASSIGN_OR_RETURN(const ModelDescription model, Pipeline::DescribeFiles(pipeline));
    KINORA_RETURN_IF_ERROR(KeepGuidanceDefaults(model, generation));
  }
  return ToGenerationRequest(generation);
}

}  // namespace kinora
