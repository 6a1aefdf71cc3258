// Detects changes of a model's files without reading them.
#ifndef KINORA_SERVER_FRONTEND_MODEL_FILES_H_
#define KINORA_SERVER_FRONTEND_MODEL_FILES_H_

#include <string>
#include <vector>

namespace kinora {

// Returns the names, inodes, sizes and times of the files named by `arguments` (PATH or NAME=VALUE, as for a worker's
// --model) and of everything inside the folders among them; missing files are listed as absent. The text differs once a
// file has changed, appeared or disappeared.
std::string StateOfFiles(const std::vector<std::string>& arguments);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_MODEL_FILES_H_
