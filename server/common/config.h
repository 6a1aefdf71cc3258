// Configuration: a protobuf text file (proto/kinora/v1/config.proto), every field of which is also a flag. Flags win.
//   --config FILE      the file; more than one merges in order
//   --check-config     the caller checks what it can without starting, prints the result and ends
//   --describe         of a worker: the caller prints what its model is, and ends
//   --help, --version
// Field worker.model is --worker-model; a repeated field's flag may be given many times and replaces the file's list;
// a bool takes --insecure, --insecure=true or --insecure=false; others --flag VALUE or --flag=VALUE. Seconds may be
// spelled as 90s or 1d, bytes as 80GB. A repeated message has no flags.
#ifndef KINORA_SERVER_COMMON_CONFIG_H_
#define KINORA_SERVER_COMMON_CONFIG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "google/protobuf/message.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

v1::FrontendConfig DefaultFrontendConfig();
v1::WorkerConfig DefaultWorkerConfig();

struct ConfigCommand {
  bool check = false;
  bool describe = false;  // of a worker
  bool help = false;
  bool version = false;
};

// Merges the files and flags of `arguments` (argv without the program) into `config`, which holds the defaults.
// InvalidArgument names the flag, or the file with line and column. With --help or --version nothing is merged.
absl::StatusOr<ConfigCommand> ParseConfig(const std::vector<std::string>& arguments, google::protobuf::Message& config);

// Flags that make ParseConfig build `config` from its defaults; how a supervisor starts a worker.
std::vector<std::string> ToFlags(const google::protobuf::Message& config);

// What --help lists of a configuration, described by the comments of config.proto: every flag but those that the
// supervisor of a worker sets. Lives as long as the process.
absl::Span<const FlagSpec> ConfigFlags(const google::protobuf::Message& config);

// The groups that a frontend is to start: `groups`, or the one that `worker` describes if it names a model. Defaults
// are filled in.
std::vector<v1::GroupConfig> GroupsOf(const v1::FrontendConfig& config);

// Those that it awaits from outside, and how many processes each has.
std::map<std::string, int> OutsideGroupsOf(const v1::FrontendConfig& config);

// Where this rank has its pages: http_address, its rank added to a port that is not 0.
std::string HttpAddressOf(const v1::WorkerConfig& config);

// Whether a listener whose callers show a token of `token_file` ("": none) may be where other machines reach it.
bool MayBeExposed(const v1::FrontendConfig& config, const std::string& token_file);
// The same of join_address, where a certificate may stand in for a token.
bool JoinMayBeExposed(const v1::FrontendConfig& config);

// What can be wrong before anything starts, each error with the field's name: a listener that is neither loopback nor
// protected, limits that are not positive, unknown words, groups that cannot be.
absl::Status CheckFrontendConfig(const v1::FrontendConfig& config);
// Of a worker that is about to start. InvalidArgument, each error with the field's name.
absl::Status CheckWorkerConfig(const v1::WorkerConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_CONFIG_H_
