// Checks that hold for every proto field, whatever its meaning. They use reflection, so new fields are covered at once.
#ifndef KINORA_SERVER_FRONTEND_API_MESSAGE_CHECK_H_
#define KINORA_SERVER_FRONTEND_API_MESSAGE_CHECK_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/common/status_details.h"

namespace kinora {

// Rejects unknown fields, enum numbers without a name, numbers that are not finite, and text that is not UTF-8 or
// contains a zero byte. Each violation has its path ("generation.sigmas[3]"). Returns at most kMaxViolations.
FieldViolations CheckMessage(const google::protobuf::Message& message);

// Parses a message from the wire. InvalidArgument: the bytes are not a message of this type, or text is not UTF-8, with
// the field's path. protobuf's own parser reports neither.
absl::Status ParseMessage(std::string_view bytes, google::protobuf::Message& message);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_MESSAGE_CHECK_H_
