// How a worker connects to its frontend: the frontend's address, the worker's credentials, and its own address.
#ifndef KINORA_SERVER_WORKER_JOIN_WAY_H_
#define KINORA_SERVER_WORKER_JOIN_WAY_H_

#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "server/worker/join_client.h"

namespace kinora {

// Reads `frontend`, `tls` and `token_file`. Fails with InvalidArgument, NotFound, … naming the field if a file cannot
// be read, if others can read the token file, or if it does not hold exactly one token.
absl::StatusOr<JoinTarget> JoinTargetOf(const v1::WorkerConfig& config);

// Returns the address from which packets to `frontend` leave this host, such as "10.0.0.5"; 127.0.0.1 for a Unix
// socket. Sends no packet. Fails with Unavailable if `frontend` cannot be resolved or there is no route to it.
absl::StatusOr<std::string> AddressToward(const std::string& frontend);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_JOIN_WAY_H_
