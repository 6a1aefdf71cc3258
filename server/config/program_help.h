// Descriptions and exit statuses of the programs, for --help and manual pages.
#ifndef KINORA_SERVER_CONFIG_PROGRAM_HELP_H_
#define KINORA_SERVER_CONFIG_PROGRAM_HELP_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"

namespace kinora {

struct ProgramHelp {
  const char* name;
  const char* synopsis;  // the arguments
  const char* summary;
  const char* exit_statuses;     // indented lines
  const char* environment = "";  // the same: a variable, two spaces or more, what it does
};

inline constexpr char kDeviceEnvironment[] =
    "  KINORA_CUDA_OFF=PART,...   as --cuda-off, which overrides it\n"
    "  KINORA_CUDA_SYNCHRONIZE=1  as --cuda-synchronize, which overrides it\n"
    "  KINORA_MAX_CPU_PATH=PATH   the widest CPU instructions to use: sse2, avx2, avx512_bf16, amx_bf16\n";

inline constexpr ProgramHelp kClientHelp = {
    "kinora", "COMMAND [flags]", "generate video with sound on a Kinora server",
    "  0  success\n"
    "  1  other error, such as a file that cannot be written or an internal server error\n"
    "  2  rejected: invalid flags, or the server rejected the call\n"
    "  3  the job failed\n"
    "  4  the job was cancelled\n"
    "  5  the server is unreachable or not serving, or the command left the job running; accepted jobs continue\n"};

inline constexpr ProgramHelp kFrontendHelp = {
    "kinora-frontend", "--worker-model PATH... [flags]", "accept requests, queue them and run them on worker groups",
    "  0  stopped after SIGTERM, SIGINT or SIGHUP, or the checked configuration is valid\n"
    "  1  failed to start\n"
    "  2  the configuration is invalid\n"};

inline constexpr ProgramHelp kGatewayHelp = {"kinora-gateway", "[--frontend ADDRESS...] [flags]",
                                             "serve the HTTP API in front of one or several frontends",
                                             "  0  stopped after SIGTERM, SIGINT or SIGHUP\n"
                                             "  1  failed to start\n"
                                             "  2  a flag, or a file that it names, is invalid\n"};

inline constexpr ProgramHelp kWorkerHelp = {
    "kinora-worker", "--frontend ADDRESS --model PATH... [flags]",
    "run one rank of a worker group; started by a frontend, or by a launcher to join one",
    "  0   stopped by the frontend or a signal\n"
    "  1   other error\n"
    "  2   the configuration or a model file is invalid\n"
    "  75  must be restarted by its supervisor or launcher\n",
    kDeviceEnvironment};

inline constexpr ProgramHelp kRenderHelp = {"kinora-render", "--model PATH... --prompt TEXT --output FILE [flags]",
                                            "generate one clip in a single process, without a server",
                                            "  0  success\n"
                                            "  1  other error\n"
                                            "  2  invalid request, model or flag, or an unavailable feature\n",
                                            kDeviceEnvironment};

// Returns the --help text of a program without commands.
inline std::string HelpText(const ProgramHelp& program, absl::Span<const FlagSpec> flags) {
  const char* const environment = *program.environment == 0 ? "" : "\nEnvironment:\n";
  return absl::StrCat(program.name, " ", program.synopsis, ": ", program.summary, "\n\n", FormatFlags(flags),
                      environment, program.environment, "\nExit status:\n", program.exit_statuses);
}

}  // namespace kinora

#endif  // KINORA_SERVER_CONFIG_PROGRAM_HELP_H_
