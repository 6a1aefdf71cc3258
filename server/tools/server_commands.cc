// The commands of who sets up a server.
#include "server/tools/bench_command.h"
#include "server/tools/commands.h"
#include "server/tools/doctor_command.h"
#include "server/tools/health_command.h"

namespace kinora {

absl::Span<const Command> ServerCommands() {
  static const auto* const kCommands = new std::vector<Command>{
      {"doctor", "[CONFIG|MODEL]",
       "says whether a server of this configuration file, or of this model's folder or file, would work here", 1,
       DoctorFlags(), Doctor, /*handles_signals=*/false,
       /*calls_server=*/false},
      {"bench", "[PROMPT]", "times clips on a server that nobody else uses: clips per hour, seconds per step", 1,
       BenchFlags(), Bench, /*handles_signals=*/true},
      {"health", "", "says by its exit status whether a server serves, for health checks and scripts", 0, HealthFlags(),
       Health},
  };
  return *kCommands;
}

}  // namespace kinora
