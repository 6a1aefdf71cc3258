// Commands for operators of a server.
#include "server/client/bench_command.h"
#include "server/client/commands.h"
#include "server/client/doctor_command.h"
#include "server/client/health_command.h"

namespace kinora {

absl::Span<const Command> ServerCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"doctor", "[CONFIG|MODEL]",
       "check whether a server or worker with this configuration or model would work on this machine", 1, DoctorFlags(),
       Doctor, /*handles_signals=*/false,
       /*calls_server=*/false},
      {"bench", "[PROMPT]", "measure clips per hour and seconds per step on an otherwise idle server", 1, BenchFlags(),
       Bench, /*handles_signals=*/true},
      {"health", "", "exit with 0 if the server is serving, for health checks and scripts", 0, HealthFlags(), Health},
  };
  return *kCommands;
}

}  // namespace kinora
