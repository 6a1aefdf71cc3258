// Finds the job for a typed id, which may be any unique prefix.
#ifndef KINORA_SERVER_CLIENT_JOB_LOOKUP_H_
#define KINORA_SERVER_CLIENT_JOB_LOOKUP_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/strings/string_view.h"
#include "server/client/connection.h"
#include "server/client/halt.h"

namespace kinora {

// Characters of an id that `kinora list` shows; enough to distinguish very many jobs.
inline constexpr size_t kShownIdLength = 8;

// Returns a full id as it is, without a call. NOT_FOUND: no id has this prefix. INVALID_ARGUMENT: several have it; the
// error lists some. Otherwise returns the call's status. Only considers jobs that ListVideos returns to this client.
grpc::Status FindJob(const Connection& connection, absl::string_view typed, std::string* id, Halt& halt);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_JOB_LOOKUP_H_
