// `kinora bench`: measures how fast a server generates clips.
#ifndef KINORA_SERVER_CLIENT_BENCH_COMMAND_H_
#define KINORA_SERVER_CLIENT_BENCH_COMMAND_H_

#include <vector>

#include "engine/base/command_line.h"
#include "server/client/connection.h"

namespace kinora {

std::vector<FlagSpec> BenchFlags();
ExitStatus Bench(const CommandLine& line);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_BENCH_COMMAND_H_
