// Opens a file in the desktop's default program.
#ifndef KINORA_SERVER_CLIENT_OPEN_FILE_H_
#define KINORA_SERVER_CLIENT_OPEN_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace kinora {

// Starts xdg-open without waiting for it, because it may be the viewer itself. Internal: it cannot be started.
absl::Status OpenFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_OPEN_FILE_H_
