// Warnings about valid requests that may not give the expected result.
#ifndef KINORA_ENGINE_REQUEST_REQUEST_WARNINGS_H_
#define KINORA_ENGINE_REQUEST_REQUEST_WARNINGS_H_

#include <string>
#include <vector>

#include "engine/request/model_description.h"
#include "engine/request/request.h"

namespace kinora {

// Returns one sentence per warning. request: as resolved for `model`.
std::vector<std::string> RequestWarnings(const ModelDescription& model, const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_REQUEST_WARNINGS_H_
