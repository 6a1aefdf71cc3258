// The commands of `kinora`. Each reads its flags, makes its calls and returns the exit status (connection.h).
#ifndef KINORA_SERVER_TOOLS_COMMANDS_H_
#define KINORA_SERVER_TOOLS_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "server/tools/connection.h"

namespace kinora {

struct Command {
  absl::string_view name;
  absl::string_view operands;  // how --help shows them, "ID"; in brackets: may be left out
  absl::string_view help;
  size_t operand_count;         // so many, or none if they may be left out
  std::vector<FlagSpec> flags;  // besides ConnectionFlags()
  ExitStatus (*run)(const CommandLine& line);
  bool handles_signals = false;  // SIGINT and SIGTERM are blocked in all threads, for it to wait for
  bool calls_server = true;      // takes ConnectionFlags(); else --json alone of them
};

absl::Span<const Command> JobCommands();     // create, get, list, estimate, models
absl::Span<const Command> ClipCommands();    // generate, watch, upload, download
absl::Span<const Command> EndingCommands();  // cancel, delete
absl::Span<const Command> ServerCommands();  // doctor, bench, health
absl::Span<const Command> AdminCommands();   // list, drain, restart
absl::Span<const FlagSpec> AdminFlags();     // of each of those, instead of --server

ExitStatus ReportLocalError(const absl::Status& status);  // a flag or a file, to stderr; kRefused, or kError for I/O

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_COMMANDS_H_
