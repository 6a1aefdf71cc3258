// Shows a file in the program that the desktop has for it.
#ifndef KINORA_SERVER_TOOLS_OPEN_FILE_H_
#define KINORA_SERVER_TOOLS_OPEN_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace kinora {

// Starts xdg-open and does not wait for it: it may be the viewer itself. Internal: there is none to start.
absl::Status OpenFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_OPEN_FILE_H_
