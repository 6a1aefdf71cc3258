// What this program is built of, in words. A library of its own, kinora_version: what links it is linked anew after
// each commit. cmake/BuildCommit.cmake writes the values; the version is that of project() in CMakeLists.txt, and is
// said nowhere else.
#ifndef KINORA_ENGINE_BASE_VERSION_H_
#define KINORA_ENGINE_BASE_VERSION_H_

#include <string>

namespace kinora {

// "0.1.0"
extern const char kBuildVersion[];
// Of the source, as git or -DKINORA_COMMIT names it; changes that are not committed do not show.
extern const char kBuildCommit[];
// "cpu", "cpu, cuda", "cpu, cuda (simulated)"
extern const char kBuildBackends[];

// The answer to --version, four lines: program and version, commit, backends of this build, path of this machine's CPU.
std::string VersionText(const char* program);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_VERSION_H_
