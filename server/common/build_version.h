// What this program was built from. A frontend and its workers agree on it as far as they must
// (server/frontend/groups/join_rules.h).
#ifndef KINORA_SERVER_COMMON_BUILD_VERSION_H_
#define KINORA_SERVER_COMMON_BUILD_VERSION_H_

#include <string>

namespace kinora {

inline constexpr char kBuildVersion[] = KINORA_VERSION;  // "0.1.0", for people

// Of the source, as git or -DKINORA_COMMIT names it. What was changed and not committed does not show.
extern const char kBuildCommit[];

struct BuildIdentity {
  std::string commit, protocol;  // as in Hello
};

// kBuildCommit, and the SHA-256 (32 bytes) of the descriptors of worker.proto and all that it imports, which are in
// every program that speaks it: without their comments, and google's as they were installed at the build.
const BuildIdentity& ThisBuild();

// "0.1.0 (commit 2005f16…)"
std::string BuildText();

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_BUILD_VERSION_H_
