// Which job is meant by what people type for its id: any beginning of it that no other job's id has.
#ifndef KINORA_SERVER_TOOLS_JOB_LOOKUP_H_
#define KINORA_SERVER_TOOLS_JOB_LOOKUP_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/strings/string_view.h"
#include "server/tools/connection.h"
#include "server/tools/halt.h"

namespace kinora {

// Characters of an id that `kinora list` shows, enough to tell a great many jobs apart.
inline constexpr size_t kShownIdLength = 8;

// A whole id is taken as it is, without a call. NOT_FOUND: no job's id begins so; INVALID_ARGUMENT: several do, and
// some of them are named; otherwise what the call ended with. Only jobs that ListVideos shows to this client count.
grpc::Status FindJob(const Connection& connection, absl::string_view typed, std::string* id, Halt& halt);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_JOB_LOOKUP_H_
