// Version, commit and backends of this build. A separate library, kinora_version, because its users are relinked after
// each commit. cmake/BuildCommit.cmake writes the values; the version comes from project() in CMakeLists.txt alone.
#ifndef KINORA_ENGINE_BASE_VERSION_H_
#define KINORA_ENGINE_BASE_VERSION_H_

#include <string>

namespace kinora {

// "0.1.0"
extern const char kBuildVersion[];
// The source's commit, from git or -DKINORA_COMMIT; uncommitted changes do not show.
extern const char kBuildCommit[];
// "cpu", "cpu, cuda", "cpu, cuda (simulated)"
extern const char kBuildBackends[];

// The output of --version, four lines: program and version, commit, backends of this build, CPU path of this machine.
std::string VersionText(const char* program);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_VERSION_H_
