#include "engine/base/cache_folder.h"

#include <cstdlib>

namespace kinora {

std::string CacheFolder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr && value[0] == '/' ? value : "");
  };
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/kinora";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/kinora";
}

}  // namespace kinora
