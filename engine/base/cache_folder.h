// Where a program keeps for its next life what it can find out again.
#ifndef KINORA_ENGINE_BASE_CACHE_FOLDER_H_
#define KINORA_ENGINE_BASE_CACHE_FOLDER_H_

#include <string>

namespace kinora {

// $XDG_CACHE_HOME/kinora or ~/.cache/kinora; "" where neither is known. Made by whoever writes into it.
std::string CacheFolder();

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CACHE_FOLDER_H_
