// `kinora health`: reports whether a server serves, from its grpc.health.v1 service.
#ifndef KINORA_SERVER_CLIENT_HEALTH_COMMAND_H_
#define KINORA_SERVER_CLIENT_HEALTH_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/client/connection.h"

namespace kinora {

std::vector<FlagSpec> HealthFlags();
// kSuccess: SERVING; kUnreachable: not serving, or no answer; kRefused: the server has no such service.
ExitStatus Health(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_HEALTH_COMMAND_H_
