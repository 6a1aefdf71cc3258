#include "server/client/command_help.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/config/program_help.h"

namespace kinora {
namespace {

constexpr char kExitStatuses[] = "\nExit status:\n";

bool IsStandard(const FlagSpec& flag) {
  const absl::Span<const FlagSpec> all = StandardFlags();
  return std::any_of(all.begin(), all.end(), [&](const FlagSpec& one) { return one.name == flag.name; });
}

void AddCommands(absl::Span<const Command> commands, absl::string_view prefix, std::string& text) {
  for (const Command& command : commands) {
    std::string line = absl::StrCat("  ", prefix, command.name, command.operands.empty() ? "" : " ", command.operands);
    line.resize(std::max<size_t>(line.size() + 1, 24), ' ');
    absl::StrAppend(&text, line, command.help, "\n");
  }
}

}  // namespace

std::vector<FlagSpec> SharedFlags(bool admin) {
  std::vector<FlagSpec> flags;
  for (const FlagSpec& flag : ConnectionFlags()) {
    if (!admin || flag.name != "server") flags.push_back(flag);
  }
  if (admin) flags.insert(flags.end(), AdminFlags().begin(), AdminFlags().end());
  flags.insert(flags.end(), StandardFlags().begin(), StandardFlags().end());
  return flags;
}

std::vector<FlagSpec> FlagsOf(const Command& command, bool admin) {
  std::vector<FlagSpec> flags = command.flags;
  for (const FlagSpec& flag : SharedFlags(admin)) {
    if (command.calls_server || flag.name == "json" || IsStandard(flag)) flags.push_back(flag);
  }
  return flags;
}

std::string Overview() {
  std::string text = absl::StrCat(
      kClientHelp.name, ": ", kClientHelp.summary,
      "\n\n"
      "  kinora generate \"a red square moves left on a white background in silence\" -o square.mp4\n\nCommands:\n");
  AddCommands(ClipCommands(), "", text);
  AddCommands(JobCommands(), "", text);
  AddCommands(EndingCommands(), "", text);
  AddCommands(ServerCommands(), "", text);
  AddCommands(AdminCommands(), "admin ", text);
  return absl::StrCat(text,
                      "\n`kinora help COMMAND` lists a command's flags.\n\nFlags of every command that calls a server, "
                      "before or after the command's name:\n",
                      FormatFlags(SharedFlags(/*admin=*/false)), kExitStatuses, kClientHelp.exit_statuses);
}

std::string AdminOverview() {
  std::string text = "kinora admin: manage the worker groups of a server\n\nCommands:\n";
  AddCommands(AdminCommands(), "admin ", text);
  return absl::StrCat(text, "\nFlags of each command:\n", FormatFlags(SharedFlags(/*admin=*/true)), kExitStatuses,
                      kClientHelp.exit_statuses);
}

std::string HelpOf(const Command& command, bool admin) {
  return absl::StrCat("kinora ", admin ? "admin " : "", command.name, command.operands.empty() ? "" : " ",
                      command.operands, " [flags]: ", command.help, "\n\n", FormatFlags(FlagsOf(command, admin)),
                      kExitStatuses, kClientHelp.exit_statuses);
}

}  // namespace kinora
