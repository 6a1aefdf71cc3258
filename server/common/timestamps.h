// Converts absl::Time and Duration to protobuf's well-known types and back, with nanoseconds. Values beyond protobuf's
// range (years 1 to 9999, ±10,000 years), such as infinities, become the ends of that range.
#ifndef KINORA_SERVER_COMMON_TIMESTAMPS_H_
#define KINORA_SERVER_COMMON_TIMESTAMPS_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace kinora {

google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);
absl::Time FromProto(const google::protobuf::Timestamp& timestamp);
absl::Duration FromProto(const google::protobuf::Duration& duration);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_TIMESTAMPS_H_
