#include "server/client/command_help.h"
#include "server/config/config.h"
#include "server/gateway/gateway_flags.h"
#include "server/manual/manual.h"
#include "server/render/render_flags.h"

namespace kinora {
namespace {

void AddCommands(absl::Span<const Command> commands, bool admin, ProgramManual& manual) {
  for (const Command& command : commands) {
    CommandManual& added = manual.commands.emplace_back();
    if (admin) added.words.emplace_back("admin");
    added.words.emplace_back(command.name);
    added.operands = command.operands;
    added.help = command.help;
    added.flags = FlagsOf(command, admin);
  }
}

std::vector<FlagSpec> ListOf(absl::Span<const FlagSpec> flags) { return {flags.begin(), flags.end()}; }

}  // namespace

std::vector<ProgramManual> AllManuals() {
  ProgramManual client{.program = kClientHelp, .flags = SharedFlags(/*admin=*/false), .commands = {}};
  AddCommands(ClipCommands(), /*admin=*/false, client);
  AddCommands(JobCommands(), /*admin=*/false, client);
  AddCommands(EndingCommands(), /*admin=*/false, client);
  AddCommands(ServerCommands(), /*admin=*/false, client);
  AddCommands(AdminCommands(), /*admin=*/true, client);
  return {
      std::move(client),
      {.program = kFrontendHelp, .flags = ListOf(ConfigFlags(v1::FrontendConfig::default_instance())), .commands = {}},
      {.program = kGatewayHelp, .flags = ListOf(GatewayFlagSpecs()), .commands = {}},
      {.program = kWorkerHelp, .flags = ListOf(ConfigFlags(v1::WorkerConfig::default_instance())), .commands = {}},
      {.program = kRenderHelp, .flags = ListOf(RenderFlags()), .commands = {}}};
}

}  // namespace kinora
