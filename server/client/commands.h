// The commands of `kinora`. Each reads its flags, makes its calls and returns the exit status (connection.h).
#ifndef KINORA_SERVER_CLIENT_COMMANDS_H_
#define KINORA_SERVER_CLIENT_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "server/client/connection.h"

namespace kinora {

struct Command {
  absl::string_view name;
  absl::string_view operands;  // as --help shows them, "ID"; optional if in brackets
  absl::string_view help;
  size_t operand_count;         // exact number; also 0 if optional
  std::vector<FlagSpec> flags;  // in addition to ConnectionFlags()
  ExitStatus (*run)(const CommandLine& line);
  bool handles_signals = false;  // waits for Interrupts::Signals(), blocked in all threads
  bool calls_server = true;      // accepts ConnectionFlags(); otherwise only --json
};

absl::Span<const Command> JobCommands();     // create, get, list, estimate, models
absl::Span<const Command> ClipCommands();    // generate, watch, upload, download
absl::Span<const Command> EndingCommands();  // cancel, delete
absl::Span<const Command> ServerCommands();  // doctor, bench, health
absl::Span<const Command> AdminCommands();   // list, drain, restart
absl::Span<const FlagSpec> AdminFlags();     // of AdminCommands(), instead of --server

ExitStatus ReportLocalError(const absl::Status& status);  // to stderr; kRefused for a flag or missing file, else kError

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_COMMANDS_H_
