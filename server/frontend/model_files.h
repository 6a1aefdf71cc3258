// Whether the files of a model have changed, without reading them.
#ifndef KINORA_SERVER_FRONTEND_MODEL_FILES_H_
#define KINORA_SERVER_FRONTEND_MODEL_FILES_H_

#include <string>
#include <vector>

namespace kinora {

// Names, sizes and times of what `arguments` name, PATH or NAME=VALUE as a worker's --model takes them, and of what
// lies in folders among it; what is not there is said so. Another text once one of them has changed, come or gone.
std::string StateOfFiles(const std::vector<std::string>& arguments);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_MODEL_FILES_H_
