// The commit and protocol of this build. A frontend rejects workers of an incompatible build
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

// `commit` is kBuildCommit. `protocol` is the SHA-256 (32 bytes) of the descriptors, without comments, of worker.proto
// and everything that it imports, including Google's protos as installed at build time.
const BuildIdentity& ThisBuild();

// kinora_build_info{version,commit,backends,cpu_path} 1
void RegisterBuildInfo(prometheus::Registry& registry);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_BUILD_VERSION_H_
