// What this program was built from. A frontend and its workers agree on it as far as they must
// (server/frontend/groups/join_rules.h).
#ifndef KINORA_SERVER_COMMON_BUILD_VERSION_H_
#define KINORA_SERVER_COMMON_BUILD_VERSION_H_

#include <prometheus/registry.h>

#include <string>

#include "engine/base/version.h"

namespace kinora {

struct BuildIdentity {
  std::string commit, protocol;  // as in Hello
};

// kBuildCommit, and the SHA-256 (32 bytes) of the descriptors of worker.proto and all that it imports, which are in
// every program that speaks it: without their comments, and google's as they were installed at the build.
const BuildIdentity& ThisBuild();

// kinora_build_info{version,commit,backends,cpu_path} 1
void RegisterBuildInfo(prometheus::Registry& registry);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_BUILD_VERSION_H_
