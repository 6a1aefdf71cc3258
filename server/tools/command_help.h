// The commands of `kinora` in words, from their tables.
#ifndef KINORA_SERVER_TOOLS_COMMAND_HELP_H_
#define KINORA_SERVER_TOOLS_COMMAND_HELP_H_

#include <string>
#include <vector>

#include "server/tools/commands.h"

namespace kinora {

// Of every command, those of `admin` or the others.
std::vector<FlagSpec> SharedFlags(bool admin);
// The command's own, and those.
std::vector<FlagSpec> FlagsOf(const Command& command, bool admin);

std::string Overview();
std::string AdminOverview();
std::string HelpOf(const Command& command, bool admin);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_COMMAND_HELP_H_
