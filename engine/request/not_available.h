// "Not available yet": what the API knows and this build cannot compute. The one table of it: whoever builds a part
// takes its row out.
#ifndef KINORA_ENGINE_REQUEST_NOT_AVAILABLE_H_
#define KINORA_ENGINE_REQUEST_NOT_AVAILABLE_H_

#include <string>

#include "engine/request/request.h"

namespace kinora {

// The first field asked for that is not available yet ("retake", "conditions"); "": all of it is.
std::string NotAvailable(const GenerationRequest& request);
std::string NotAvailable(const OutputRequest& output);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_NOT_AVAILABLE_H_
