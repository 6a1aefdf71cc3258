// What the programs are and how they end, in words: for --help and manual pages.
#ifndef KINORA_SERVER_COMMON_PROGRAM_HELP_H_
#define KINORA_SERVER_COMMON_PROGRAM_HELP_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"

namespace kinora {

struct ProgramHelp {
  const char* name;
  const char* synopsis;  // what follows the name
  const char* summary;
  const char* exit_statuses;  // indented lines
};

inline constexpr ProgramHelp kClientHelp = {
    "kinora", "COMMAND [flags]", "makes video with sound on a Kinora server",
    "  0  done\n"
    "  1  any other error: a file that cannot be written, an internal error of the server\n"
    "  2  refused: a bad flag, or the server did not accept the call\n"
    "  3  the job failed\n"
    "  4  the job was cancelled\n"
    "  5  the server is not reachable or not serving (a job that it accepted goes on), or the job was left running\n"};

inline constexpr ProgramHelp kFrontendHelp = {"kinora-frontend", "--worker-model PATH... [flags]",
                                              "takes requests, queues them and runs them on worker groups",
                                              "  0  drained after SIGTERM or SIGINT, or the configuration is right\n"
                                              "  1  it could not be started\n"
                                              "  2  the configuration is wrong\n"};

inline constexpr ProgramHelp kWorkerHelp = {
    "kinora-worker", "--frontend ADDRESS --model PATH... [flags]",
    "computes for a frontend, which starts it itself or finds it joining: one rank of a group",
    "  0   told to leave\n"
    "  1   any other error\n"
    "  2   the configuration or a model file is wrong\n"
    "  75  to be started again, by whoever started it\n"};

inline constexpr ProgramHelp kRenderHelp = {"kinora-render", "--model PATH... --prompt TEXT --output FILE [flags]",
                                            "makes one clip in one process, without a server",
                                            "  0  done\n"
                                            "  1  any other error\n"
                                            "  2  a bad request, model or flag, or something not available yet\n"};

// The text of --help of a program without commands.
inline std::string HelpText(const ProgramHelp& program, absl::Span<const FlagSpec> flags) {
  return absl::StrCat(program.name, " ", program.synopsis, ": ", program.summary, "\n\n", FormatFlags(flags),
                      "\nExit status:\n", program.exit_statuses);
}

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_PROGRAM_HELP_H_
