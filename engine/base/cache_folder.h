// The folder for data that a program can recompute but keeps between runs.
#ifndef KINORA_ENGINE_BASE_CACHE_FOLDER_H_
#define KINORA_ENGINE_BASE_CACHE_FOLDER_H_

#include <string>

namespace kinora {

// Returns $XDG_CACHE_HOME/kinora or ~/.cache/kinora; "" if neither variable is an absolute path. Does not create the
// folder.
std::string CacheFolder();

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CACHE_FOLDER_H_
