// What no proto field may hold, whatever its meaning: found by reflection, so that a new field is covered the day it is
// added.
#ifndef KINORA_SERVER_FRONTEND_API_MESSAGE_CHECK_H_
#define KINORA_SERVER_FRONTEND_API_MESSAGE_CHECK_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/common/status_details.h"

namespace kinora {

// Fields that this build does not know, enum numbers without a name, numbers that are not finite, text that is not
// UTF-8 or holds a zero byte; each with its path ("generation.sigmas[3]"). At most kMaxViolations.
FieldViolations CheckMessage(const google::protobuf::Message& message);

// Parses a message that came over the wire. InvalidArgument: bytes that are no message of this type, or text that is
// not UTF-8, with the field's path; protobuf's own parser says neither.
absl::Status ParseMessage(std::string_view bytes, google::protobuf::Message& message);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_MESSAGE_CHECK_H_
