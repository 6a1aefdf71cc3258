// The part of request validation that knows sizes, schedules and guidance: defaults and limits of one model.
#ifndef KINORA_SERVER_FRONTEND_API_GENERATION_CHECK_H_
#define KINORA_SERVER_FRONTEND_API_GENERATION_CHECK_H_

#include <map>
#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"
#include "server/common/status_details.h"

namespace kinora {

// `asked` with the model's defaults of its recipe; no seed is drawn. A value that the model did not state stays absent,
// and the pipeline fills it in.
v1::Generation WithDefaults(const v1::Generation& asked, const v1::ModelInfo& model);

// Adds what is wrong with `asked`, whose defaults are in `effective`. `too_large`: it exceeds the model's limits.
void CheckGenerationFor(const v1::ModelInfo& model, const v1::Generation& asked, const v1::Generation& effective,
                        std::vector<FieldViolation>& violations, bool& too_large);

// The limits of the recipe, for an ErrorInfo.
std::map<std::string, std::string> LargestShape(const v1::ModelInfo& model, const v1::Generation& effective);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_GENERATION_CHECK_H_
