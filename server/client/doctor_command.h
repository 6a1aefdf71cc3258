// `kinora doctor`: checks whether a frontend or worker with this configuration, or a server of this model, would work
// on this machine.
#ifndef KINORA_SERVER_CLIENT_DOCTOR_COMMAND_H_
#define KINORA_SERVER_CLIENT_DOCTOR_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/client/connection.h"

namespace kinora {

std::vector<FlagSpec> DoctorFlags();
ExitStatus Doctor(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_DOCTOR_COMMAND_H_
