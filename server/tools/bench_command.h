// `kinora bench`: how fast a server makes clips.
#ifndef KINORA_SERVER_TOOLS_BENCH_COMMAND_H_
#define KINORA_SERVER_TOOLS_BENCH_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/tools/connection.h"

namespace kinora {

std::vector<FlagSpec> BenchFlags();
ExitStatus Bench(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_BENCH_COMMAND_H_
