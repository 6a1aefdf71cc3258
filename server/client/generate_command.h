// `kinora generate`: sends the request, shows its progress and saves its file.
#ifndef KINORA_SERVER_CLIENT_GENERATE_COMMAND_H_
#define KINORA_SERVER_CLIENT_GENERATE_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/client/connection.h"

namespace kinora {

std::vector<FlagSpec> GenerateFlags();
ExitStatus Generate(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_GENERATE_COMMAND_H_
