// kinora: the client of a Kinora server.
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/tools/commands.h"

namespace kinora {
namespace {

constexpr char kExitStatuses[] =
    "Exit status:\n"
    "  0  done\n"
    "  1  any other error: a file that cannot be written, an internal error of the server\n"
    "  2  refused: a bad flag, or the server did not accept the call\n"
    "  3  the job failed\n"
    "  4  the job was cancelled\n"
    "  5  the server is not reachable or not serving (a job that it accepted goes on), or the job was left running\n";

std::string Overview() {
  std::string text =
      "kinora: makes video with sound on a Kinora server\n\n"
      "  kinora generate \"a red fox in fresh snow\" -o fox.mp4\n\nCommands:\n";
  const auto add = [&text](absl::Span<const Command> commands, absl::string_view prefix) {
    for (const Command& command : commands) {
      std::string line =
          absl::StrCat("  ", prefix, command.name, command.operands.empty() ? "" : " ", command.operands);
      line.resize(std::max<size_t>(line.size() + 1, 24), ' ');
      absl::StrAppend(&text, line, command.help, "\n");
    }
  };
  add(ClipCommands(), "");
  add(JobCommands(), "");
  add(AdminCommands(), "admin ");
  return absl::StrCat(text, "\n`kinora COMMAND --help` lists its flags. Of every command:\n",
                      FormatFlags(ConnectionFlags()), "\n", kExitStatuses);
}

const Command* Find(absl::Span<const Command> commands, const std::string& name) {
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int RunCommand(const Command& command, absl::string_view prefix, const std::vector<std::string>& arguments) {
  std::vector<FlagSpec> flags = command.flags;
  for (const FlagSpec& flag : ConnectionFlags()) {
    if (prefix.empty() || flag.name != "server") flags.push_back(flag);  // Admin has an address of its own
  }
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument != "--help" && argument != "-h") continue;
    std::printf("kinora %s%s%s%s [flags]: %s\n\n%s\n%s", std::string(prefix).c_str(), std::string(command.name).c_str(),
                command.operands.empty() ? "" : " ", std::string(command.operands).c_str(),
                std::string(command.help).c_str(), FormatFlags(flags).c_str(), kExitStatuses);
    return kSuccess;
  }
  const auto line = CommandLine::Parse(flags, arguments);
  if (!line.ok()) return ReportLocalError(line.status());
  const bool left_out = line->operands().empty() && absl::StartsWith(command.operands, "[");
  if (line->operands().size() != command.operand_count && !left_out) {
    return ReportLocalError(absl::InvalidArgumentError(
        absl::StrCat(prefix, command.name, ": ", command.operand_count == 0 ? "no operand" : command.operands,
                     " expected, ", line->operands().size(), " given; see --help")));
  }
  return command.run(*line);
}

int Main(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    std::fputs(Overview().c_str(), arguments.empty() ? stderr : stdout);
    return arguments.empty() ? kRefused : kSuccess;
  }
  const bool admin = arguments[0] == "admin" && arguments.size() > 1;
  if (admin) arguments.erase(arguments.begin());
  const Command* command = admin ? Find(AdminCommands(), arguments[0]) : Find(ClipCommands(), arguments[0]);
  if (command == nullptr && !admin) command = Find(JobCommands(), arguments[0]);
  if (command == nullptr) {
    return ReportLocalError(absl::InvalidArgumentError(
        absl::StrCat(admin ? "admin " : "", arguments[0], ": no such command; `kinora --help` lists them")));
  }
  return RunCommand(*command, admin ? "admin " : "", {arguments.begin() + 1, arguments.end()});
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  // gRPC's threads inherit the mask, so that a command that handles signals gets them on the one thread that waits for
  // them; a command that does not handle them is ended by the default action, which this gives back to the main thread.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "generate" || command == "watch") pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed standard output is an error to see, not a signal to die of
  return kinora::Main({argv + 1, argv + argc});
}
