// Help texts of `kinora`, generated from the tables of commands.
#ifndef KINORA_SERVER_CLIENT_COMMAND_HELP_H_
#define KINORA_SERVER_CLIENT_COMMAND_HELP_H_

#include <string>
#include <vector>

#include "server/client/commands.h"

namespace kinora {

// The flags common to all `admin` commands, or to all others.
std::vector<FlagSpec> SharedFlags(bool admin);
// The command's own flags and the shared ones.
std::vector<FlagSpec> FlagsOf(const Command& command, bool admin);

std::string Overview();
std::string AdminOverview();
std::string HelpOf(const Command& command, bool admin);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_COMMAND_HELP_H_
