// How a worker that somebody else than the frontend started reaches it: where to, what it shows there, and from which
// address of its own.
#ifndef KINORA_SERVER_WORKER_JOIN_WAY_H_
#define KINORA_SERVER_WORKER_JOIN_WAY_H_

#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "server/worker/join_client.h"

namespace kinora {

// Of frontend, tls and token_file. InvalidArgument, NotFound, …: a file that cannot be read or holds no token, with its
// field.
absl::StatusOr<JoinTarget> JoinTargetOf(const v1::WorkerConfig& config);

// The address from which packets to `frontend` leave this host, as "10.0.0.5"; 127.0.0.1 for a Unix socket. Sends none.
// Unavailable: it has no address, or there is no way to it.
absl::StatusOr<std::string> AddressToward(const std::string& frontend);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_JOIN_WAY_H_
