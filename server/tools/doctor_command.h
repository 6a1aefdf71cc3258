// `kinora doctor`: whether a server of this configuration, or of this model, would work on this machine.
#ifndef KINORA_SERVER_TOOLS_DOCTOR_COMMAND_H_
#define KINORA_SERVER_TOOLS_DOCTOR_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/command_line.h"
#include "server/tools/connection.h"

namespace kinora {

std::vector<FlagSpec> DoctorFlags();
ExitStatus Doctor(const CommandLine& line);

// What the operand of doctor means as a model: a .safetensors file or a diffusers folder is itself; a folder with one
// such file of a transformer, and a text encoder's folder in it, is both. Values of kinora-render's --model.
// InvalidArgument: a folder with no model or with several, which are named.
absl::StatusOr<std::vector<std::string>> ModelAt(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_DOCTOR_COMMAND_H_
