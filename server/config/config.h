// Configuration: a protobuf text file (proto/kinora/v1/config.proto), each field of which is also a flag. Flags
// override the file.
//   --config FILE      the file; more than one merges in order
//   --check-config     the caller checks what it can without starting, prints the result and exits
//   --describe         worker only: the caller prints the model's description and exits
//   --help, --version
// The flag of field worker.model is --worker-model. The flag of a repeated field may be repeated and replaces the
// file's list. A bool accepts --insecure, --insecure=true or --insecure=false; others --flag VALUE or --flag=VALUE.
// Seconds may be written as 90s or 1d, bytes as 80GB. A repeated message has no flags.
#ifndef KINORA_SERVER_CONFIG_CONFIG_H_
#define KINORA_SERVER_CONFIG_CONFIG_H_

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
  bool describe = false;     // worker only
  std::string copy_store{};  // frontend only
  bool help = false;
  bool version = false;
};

// Merges the files and flags of `arguments` (argv without the program) into `config`, which holds the defaults.
// InvalidArgument names the flag, or the file with line and column. With --help or --version nothing is merged.
absl::StatusOr<ConfigCommand> ParseConfig(const std::vector<std::string>& arguments, google::protobuf::Message& config);

// Returns flags from which ParseConfig builds `config`, given its defaults. A supervisor starts workers with them.
std::vector<std::string> ToFlags(const google::protobuf::Message& config);

// Returns the flags that --help lists, with the comments of config.proto. Omits flags that a worker's supervisor sets
// and, for an embedded worker, those that a launcher sets. Valid for the life of the process.
absl::Span<const FlagSpec> ConfigFlags(const google::protobuf::Message& config);

// Returns the groups that a frontend starts: the entries of `groups` that are not outside groups, or, if there are
// none, the one that `worker` describes if it names a model. Defaults are filled in.
std::vector<v1::GroupConfig> GroupsOf(const v1::FrontendConfig& config);

// Returns the number of processes of each outside group, whose workers the frontend does not start.
std::map<std::string, int> OutsideGroupsOf(const v1::FrontendConfig& config);

// Returns the address of this rank's pages: http_address, with the rank added to a port other than 0.
std::string HttpAddressOf(const v1::WorkerConfig& config);

// FrontendConfig.store, with its default and its old name. Whether it is the URL of a PostgreSQL database.
std::string StoreOf(const v1::FrontendConfig& config);
bool IsDatabaseUrl(const std::string& store);

// What FrontendConfig.artifacts may be: "s3://…", or "file:///FOLDER", whose folder is "" for anything else.
bool IsBucketUrl(const std::string& artifacts);
std::string FolderOfUrl(const std::string& artifacts);

// Returns the address at which the frontend's own gateway serves HTTP: web_address or, if that is unset and the
// frontend starts a group, the default. "": it starts no gateway.
std::string WebAddressOf(const v1::FrontendConfig& config);
// Returns the address at which that gateway calls the frontend: unix:<state_directory>/gateway.sock; "" without it.
std::string GatewaySocketOf(const v1::FrontendConfig& config);

// Whether a listener that requires a token of `token_file` ("": no tokens) may be reachable from other machines.
bool MayBeExposed(const v1::FrontendConfig& config, const std::string& token_file);
// As above for join_address, where a client certificate can replace the token.
bool JoinMayBeExposed(const v1::FrontendConfig& config);
bool PeersMayBeExposed(const v1::FrontendConfig& config);

// Where other frontends call this one, and where ranks join it that others send there. "": nowhere.
std::string AdvertisedPeerAddress(const v1::FrontendConfig& config);
std::string AdvertisedJoinAddress(const v1::FrontendConfig& config);

// Checks what can be checked before anything starts. InvalidArgument names the field of each error: a listener that is
// neither loopback nor protected, a limit that is not positive, an unknown word, an impossible group.
absl::Status CheckFrontendConfig(const v1::FrontendConfig& config);
// As above for a worker that is about to start.
absl::Status CheckWorkerConfig(const v1::WorkerConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_CONFIG_CONFIG_H_
