// `kinora health`: whether a server serves, as its grpc.health.v1 says.
#ifndef KINORA_SERVER_TOOLS_HEALTH_COMMAND_H_
#define KINORA_SERVER_TOOLS_HEALTH_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/tools/connection.h"

namespace kinora {

std::vector<FlagSpec> HealthFlags();
// kSuccess: SERVING; kUnreachable: it is not, or nobody answers; kRefused: the server knows no such service.
ExitStatus Health(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_HEALTH_COMMAND_H_
