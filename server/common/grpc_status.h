// The one place where absl::Status becomes grpc::Status and back. Codes are equal by number; details travel as a
// google.rpc.Status in grpc-status-details-bin.
#ifndef KINORA_SERVER_COMMON_GRPC_STATUS_H_
#define KINORA_SERVER_COMMON_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace kinora {

// A long message is cut at 1.5 KiB and details are left out above 3 KiB: past 8 KiB of trailers the client would see
// RESOURCE_EXHAUSTED instead of the error.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_GRPC_STATUS_H_
