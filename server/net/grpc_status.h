// The only conversion between absl::Status and grpc::Status. Codes have equal numbers; details travel as a
// google.rpc.Status in grpc-status-details-bin.
#ifndef KINORA_SERVER_NET_GRPC_STATUS_H_
#define KINORA_SERVER_NET_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace kinora {

// Truncates a message to 1.5 KiB and drops details beyond 3 KiB: with more than 8 KiB of trailers the client would see
// RESOURCE_EXHAUSTED instead of the error.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_NET_GRPC_STATUS_H_
