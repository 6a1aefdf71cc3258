// `kinora generate`: the request, its progress, its file.
#ifndef KINORA_SERVER_TOOLS_GENERATE_COMMAND_H_
#define KINORA_SERVER_TOOLS_GENERATE_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/tools/connection.h"

namespace kinora {

std::vector<FlagSpec> GenerateFlags();
ExitStatus Generate(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_GENERATE_COMMAND_H_
