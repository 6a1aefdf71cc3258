// kinora: the client of a Kinora server.
#include <grpc/support/log.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/version.h"
#include "server/client/command_help.h"
#include "server/client/commands.h"
#include "server/client/interrupts.h"

namespace kinora {
namespace {

// gRPC's threads inherit the mask, so that the signals reach the one thread that waits for them. In other commands the
// default action ends the process.
void BlockSignals() {
  const sigset_t signals = Interrupts::Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

ExitStatus Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kSuccess;
}

// For a call without a command.
ExitStatus Explain(const std::string& overview) {
  std::fputs(overview.c_str(), stderr);
  return kRefused;
}

absl::Status CheckOperands(const Command& command, const std::vector<std::string>& operands) {
  const bool left_out = operands.empty() && absl::StartsWith(command.operands, "[");
  if (operands.size() == command.operand_count || left_out) return absl::OkStatus();
  const bool prompt = command.operands == "[PROMPT]";
  const std::string given = operands.empty() ? "" : absl::StrCat(": \"", absl::StrJoin(operands, "\", \""), "\"");
  return absl::InvalidArgumentError(
      absl::StrCat(command.name, ": ", command.operand_count == 0 ? "no operand" : command.operands, " expected, ",
                   operands.size(), " given", given, prompt ? "; put the whole prompt in quotes" : ""));
}

int RunCommand(const Command& command, bool admin, const std::vector<std::string>& arguments) {
  const auto line = CommandLine::Parse(FlagsOf(command, admin), arguments);
  if (!line.ok()) return ReportLocalError(line.status());
  if (line->Has("help")) return Print(HelpOf(command, admin));
  if (line->Has("version")) return Print(VersionText("kinora"));
  const absl::Status operands = CheckOperands(command, line->operands());
  if (!operands.ok()) return ReportLocalError(operands);
  if (command.handles_signals) BlockSignals();
  return command.run(*line);
}

// `words` start with a command's name; `before`: the flags before it.
int FindAndRun(const std::vector<absl::Span<const Command>>& tables, bool admin, std::vector<std::string> before,
               absl::Span<const std::string> words) {
  std::vector<absl::string_view> names;
  for (absl::Span<const Command> commands : tables) {
    for (const Command& command : commands) {
      names.push_back(command.name);
      if (command.name != words[0]) continue;
      before.insert(before.end(), words.begin() + 1, words.end());
      return RunCommand(command, admin, before);
    }
  }
  const absl::string_view nearest = NearestWord(words[0], names);
  return ReportLocalError(absl::InvalidArgumentError(
      absl::StrCat(admin ? "admin " : "", words[0], ": no such command; ",
                   nearest.empty() ? absl::StrCat("`kinora ", admin ? "admin " : "", "--help` lists them")
                                   : absl::StrCat("did you mean `kinora ", admin ? "admin " : "", nearest, "`?"))));
}

// Turns "help WORDS…" into "WORDS… --help".
std::vector<std::string> WithoutHelpCommand(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

int Admin(std::vector<std::string> words) {
  words = WithoutHelpCommand(std::move(words));
  const std::vector<FlagSpec> flags = SharedFlags(/*admin=*/true);
  const auto count = CommandLine::CountBeforeOperands(flags, words);
  if (!count.ok()) return ReportLocalError(count.status());
  const std::vector<std::string> before(words.begin(), words.begin() + *count);
  if (*count < words.size()) {
    return FindAndRun({AdminCommands()}, true, before, absl::MakeConstSpan(words).subspan(*count));
  }
  const auto line = CommandLine::Parse(flags, before);
  if (!line.ok()) return ReportLocalError(line.status());
  if (line->Has("version")) return Print(VersionText("kinora"));
  return line->Has("help") ? Print(AdminOverview()) : Explain(AdminOverview());
}

int Main(std::vector<std::string> words) {
  words = WithoutHelpCommand(std::move(words));
  std::vector<FlagSpec> flags = SharedFlags(/*admin=*/false);
  flags.insert(flags.end(), AdminFlags().begin(), AdminFlags().end());
  const auto count = CommandLine::CountBeforeOperands(flags, words);
  if (!count.ok()) return ReportLocalError(count.status());
  const std::vector<std::string> before(words.begin(), words.begin() + *count);
  if (*count == words.size()) {
    const auto line = CommandLine::Parse(flags, before);
    if (!line.ok()) return ReportLocalError(line.status());
    if (line->Has("version")) return Print(VersionText("kinora"));
    return line->Has("help") ? Print(Overview()) : Explain(Overview());
  }
  if (words[*count] != "admin") {
    return FindAndRun({ClipCommands(), JobCommands(), EndingCommands(), ServerCommands()}, false, before,
                      absl::MakeConstSpan(words).subspan(*count));
  }
  words.erase(words.begin() + *count);
  return Admin(std::move(words));
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  // Silences gRPC's log, because a call's status has the same information. GRPC_VERBOSITY enables it again.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed pipe fails instead
  return kinora::Main({argv + 1, argv + argc});
}
