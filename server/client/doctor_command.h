// `kinora doctor`: checks whether a frontend or worker with this configuration, or a server of this model, would work
// on this machine.
#ifndef KINORA_SERVER_CLIENT_DOCTOR_COMMAND_H_
#define KINORA_SERVER_CLIENT_DOCTOR_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/command_line.h"
#include "server/client/connection.h"

namespace kinora {

std::vector<FlagSpec> DoctorFlags();
ExitStatus Doctor(const CommandLine& line);

// Returns the values of kinora-render's --model for the operand `path` of doctor: a .safetensors file or a diffusers
// folder itself; for another folder, its only .safetensors file with a transformer, and its text encoder folder if it
// has one. InvalidArgument: a folder with no model, or with several, which the error lists.
absl::StatusOr<std::vector<std::string>> ModelAt(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_DOCTOR_COMMAND_H_
