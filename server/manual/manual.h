// Manual pages and shell completion of a program, from the tables that its parser reads.
#ifndef KINORA_SERVER_MANUAL_MANUAL_H_
#define KINORA_SERVER_MANUAL_MANUAL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/command_line.h"
#include "server/config/program_help.h"

namespace kinora {

struct CommandManual {
  std::vector<std::string> words;  // {"generate"}, {"admin", "drain"}
  absl::string_view operands, help;
  std::vector<FlagSpec> flags;  // all that it accepts
};

struct ProgramManual {
  ProgramHelp program;
  std::vector<FlagSpec> flags;          // accepted without a command or before it
  std::vector<CommandManual> commands;  // empty: the program has none
};

// Returns the manuals of kinora, kinora-frontend, kinora-worker and kinora-render.
std::vector<ProgramManual> AllManuals();

// Returns the page of section 1, in the macros of man(7).
std::string ManPage(const ProgramManual& manual);

// Scripts that a shell sources or finds by file name: bash NAME, zsh _NAME, fish NAME.fish. A flag's value is completed
// with the words that FlagSpec::value lists, or with files if it is a path.
std::string BashCompletion(const ProgramManual& manual);
std::string ZshCompletion(const ProgramManual& manual);
std::string FishCompletion(const ProgramManual& manual);

}  // namespace kinora

#endif  // KINORA_SERVER_MANUAL_MANUAL_H_
