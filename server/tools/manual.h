// Manual pages and shell completion of a program, from the tables that its parser reads.
#ifndef KINORA_SERVER_TOOLS_MANUAL_H_
#define KINORA_SERVER_TOOLS_MANUAL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/command_line.h"
#include "server/common/program_help.h"

namespace kinora {

struct CommandManual {
  std::vector<std::string> words;  // {"generate"}, {"admin", "drain"}
  absl::string_view operands, help;
  std::vector<FlagSpec> flags;  // all that it takes
};

struct ProgramManual {
  ProgramHelp program;
  std::vector<FlagSpec> flags;          // without a command, or before it
  std::vector<CommandManual> commands;  // empty: the program has none
};

// kinora, kinora-frontend, kinora-worker, kinora-render.
std::vector<ProgramManual> AllManuals();

// In the macros of man(7), section 1.
std::string ManPage(const ProgramManual& manual);

// What a shell sources, or finds by its file's name: bash NAME, zsh _NAME, fish NAME.fish. A flag's value is completed
// with the words that FlagSpec::value names, or with files where it is one.
std::string BashCompletion(const ProgramManual& manual);
std::string ZshCompletion(const ProgramManual& manual);
std::string FishCompletion(const ProgramManual& manual);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_MANUAL_H_
