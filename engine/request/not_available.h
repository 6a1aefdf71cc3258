// "Not available yet": parts of the API that this build cannot compute. The table in not_available.cc is the only list;
// remove a part's row when you build the part.
#ifndef KINORA_ENGINE_REQUEST_NOT_AVAILABLE_H_
#define KINORA_ENGINE_REQUEST_NOT_AVAILABLE_H_

#include <string>

#include "engine/request/request.h"

namespace kinora {

// Returns the first requested field that is not available yet ("retake", "conditions"); "" if all are.
std::string NotAvailable(const GenerationRequest& request);
std::string NotAvailable(const OutputRequest& output);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_NOT_AVAILABLE_H_
