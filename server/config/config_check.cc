#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/net/listen_address.h"

namespace kinora {
namespace {

// Whether the address is all addresses of a machine.
bool IsWildcard(const std::string& address) {
  return absl::StartsWith(address, "0.0.0.0:") || absl::StartsWith(address, "[::]:") || absl::StartsWith(address, ":");
}

// Checks the form of an address, and that other machines can reach it only if it is protected or the operator allows
// it. Checks every address of a name.
void CheckListener(const char* field, const std::string& address, bool may_be_exposed, const char* remedy,
                   std::vector<FieldViolation>& out) {
  if (address.empty()) return;
  const auto resolved = ResolveListenAddress(address);
  if (!resolved.ok()) return out.push_back({field, std::string(resolved.status().message())});
  for (const SocketAddress& one : *resolved) {
    if (one.IsLocal() || may_be_exposed) continue;
    return out.push_back(
        {field, absl::StrCat("\"", address, "\" is ", one.Host(), ", which is not loopback: ", remedy)});
  }
}

constexpr char kPagesAreOpen[] = "put a proxy in front of these pages, which have no authentication, or set insecure";

void CheckListeners(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  constexpr char kProtect[] = "set tls.certificate_file, tls.key_file and a token file, or insecure";
  if (config.address().empty()) out.push_back({"address", "must be host:port or unix:PATH"});
  CheckListener("address", config.address(), MayBeExposed(config, config.token_file()), kProtect, out);
  CheckListener("admin_address", config.admin_address(), MayBeExposed(config, config.admin_token_file()), kProtect,
                out);
  CheckListener("web_address", WebAddressOf(config), MayBeExposed(config, config.token_file()), kProtect, out);
  CheckListener("http_address", config.http_address(), config.insecure(), kPagesAreOpen, out);
  CheckListener("join_address", config.join_address(), JoinMayBeExposed(config),
                "set join_tls.certificate_file, join_tls.key_file, and join_token_file or join_tls.client_ca_file, or "
                "insecure",
                out);
  CheckListener("peer_address", config.peer_address(), PeersMayBeExposed(config),
                "set peer_tls.certificate_file, peer_tls.key_file, peer_ca_file and peer_token_file, or insecure", out);
  if (!config.worker().model().empty()) {
    CheckListener("worker.http_address", config.worker().http_address(), config.insecure(), kPagesAreOpen, out);
  }
  for (int i = 0; i < config.groups_size(); ++i) {
    CheckListener(absl::StrCat("groups[", i, "].worker.http_address").c_str(), config.groups(i).worker().http_address(),
                  config.insecure(), kPagesAreOpen, out);
  }
}

void CheckPositive(const char* field, double value, std::vector<FieldViolation>& out) {
  if (!(value > 0) || !std::isfinite(value)) out.push_back({field, absl::StrCat(value, " must be greater than 0")});
}

// For intervals and timeouts that recur.
void CheckInterval(const char* field, double seconds, std::vector<FieldViolation>& out) {
  constexpr double kShortest = 0.01;  // with less, the frontend would do little else
  if (seconds >= kShortest && std::isfinite(seconds)) return;
  out.push_back({field, absl::StrCat(seconds, " must be ", kShortest, " or more; nearest: ", kShortest)});
}

void CheckWord(const char* field, const std::string& value, std::initializer_list<const char*> words,
               std::vector<FieldViolation>& out) {
  std::string list;
  for (const char* word : words) {
    if (value == word) return;
    absl::StrAppend(&list, list.empty() ? "" : ", ", word);
  }
  out.push_back({field, absl::StrCat("\"", value, "\" is not one of ", list)});
}

// Rejects fields that only a worker needs that joins over a join_address. shares_store: it writes its clips where its
// frontend reads them.
void CheckJoinsHere(const std::string& prefix, const v1::WorkerConfig& worker, bool shares_store,
                    std::vector<FieldViolation>& out) {
  constexpr char kWhy[] = "has no effect: this worker joins over a Unix socket on the frontend's machine";
  for (const auto& [field, value] : {std::pair{"tls.certificate_file", worker.tls().certificate_file()},
                                     {"tls.key_file", worker.tls().key_file()},
                                     {"tls.ca_file", worker.tls().ca_file()},
                                     {"token_file", worker.token_file()},
                                     {"scratch_directory", shares_store ? worker.scratch_directory() : ""}}) {
    if (!value.empty()) out.push_back({prefix + field, kWhy});
  }
}

// A URL may contain a password, which no message repeats.
void CheckStoreField(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  if (!config.store().empty() && !config.job_store().empty() && config.store() != config.job_store()) {
    return out.push_back({"job_store", "is the old name of store; set store alone"});
  }
  const std::string store = StoreOf(config);
  if (IsDatabaseUrl(store) || store == "sqlite" || store == "memory") return;
  const bool may_be_secret = store.find_first_of("=@") != std::string::npos;
  const std::string shown = may_be_secret ? store.substr(0, store.find_first_of(":=")) + "…" : store;
  out.push_back({config.store().empty() ? "job_store" : "store",
                 absl::StrCat("\"", shown, "\" is not one of sqlite, memory, postgresql://USER@HOST/DATABASE")});
}

void CheckBucketFields(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  if (IsBucketUrl(config.artifacts())) return;
  for (const auto& [field, set] : {std::pair{"s3_endpoint", !config.s3_endpoint().empty()},
                                   {"s3_region", !config.s3_region().empty()},
                                   {"s3_path_style", config.s3_path_style()}}) {
    if (set) out.push_back({field, "has no effect: artifacts names no bucket (s3://BUCKET/PREFIX)"});
  }
}

void CheckLimits(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  CheckPositive("queue_capacity", config.queue_capacity(), out);
  CheckPositive("max_watchers", config.max_watchers(), out);
  CheckPositive("max_lost_groups", config.max_lost_groups(), out);
  CheckPositive("max_connections", config.max_connections(), out);
  CheckPositive("max_downloads", config.max_downloads(), out);
  CheckPositive("max_downloads_per_client", config.max_downloads_per_client(), out);
  CheckInterval("download_idle_seconds", config.download_idle_seconds(), out);
  CheckPositive("max_call_memory_bytes", static_cast<double>(config.max_call_memory_bytes()), out);
  CheckPositive("max_uploads", config.max_uploads(), out);
  CheckPositive("max_uploads_per_client", config.max_uploads_per_client(), out);
  CheckInterval("upload_idle_seconds", config.upload_idle_seconds(), out);
  CheckPositive("max_input_bytes", static_cast<double>(config.max_input_bytes()), out);
  CheckPositive("input_quota_bytes", static_cast<double>(config.input_quota_bytes()), out);
  if (config.max_input_bytes() > config.input_quota_bytes()) {
    out.push_back({"max_input_bytes", absl::StrCat("is more than input_quota_bytes, ", config.input_quota_bytes(),
                                                   ", so no input of that size could be stored")});
  }
  CheckPositive("input_ttl_seconds", config.input_ttl_seconds(), out);
  CheckPositive("default_ttl_seconds", config.default_ttl_seconds(), out);
  CheckPositive("max_ttl_seconds", config.max_ttl_seconds(), out);
  CheckInterval("sweep_interval_seconds", config.sweep_interval_seconds(), out);
  CheckInterval("heartbeat_interval_seconds", config.heartbeat_interval_seconds(), out);
  CheckInterval("lease_seconds", config.lease_seconds(), out);
  CheckInterval("worker_step_floor_seconds", config.worker_step_floor_seconds(), out);
  CheckInterval("worker_heartbeat_timeout_seconds", config.worker_heartbeat_timeout_seconds(), out);
  CheckInterval("group_join_timeout_seconds", config.group_join_timeout_seconds(), out);
  if (!(config.disconnect_grace_seconds() >= 0)) out.push_back({"disconnect_grace_seconds", "must be 0 or more"});
  if (!(config.preempt_after_seconds() >= 0) || !std::isfinite(config.preempt_after_seconds())) {
    out.push_back({"preempt_after_seconds", "must be 0 or more"});
  }
  if (!(config.drain_grace_seconds() >= 0)) out.push_back({"drain_grace_seconds", "must be 0 or more"});
  if (config.min_free_bytes() < 0) out.push_back({"min_free_bytes", "must be 0 or more"});
  if (config.accept_lost_commits() < 0) out.push_back({"accept_lost_commits", "must be 0 or more"});
}

void CheckShare(const std::string& field, double share, std::vector<FieldViolation>& out) {
  if (!(share > 0 && share <= 1)) out.push_back({field, absl::StrCat(share, " must be greater than 0 and at most 1")});
}

bool IsGroupId(const std::string& id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
}

// Rejects fields that the supervisor sets for each process. `prefix`: of the worker's fields.
void CheckSetBySupervisor(const std::string& prefix, const v1::WorkerConfig& worker, std::vector<FieldViolation>& out) {
  for (const auto& [field, set] : {std::pair{"frontend", !worker.frontend().empty()},
                                   {"lifeline_fd", worker.lifeline_fd() != 0},
                                   {"secret_fd", worker.secret_fd() != 0},
                                   {"incarnation", !worker.incarnation().empty()},
                                   {"rank", worker.rank() != 0}}) {
    if (set) out.push_back({absl::StrCat(prefix, field), "must be empty: the frontend sets it"});
  }
}

void CheckRunOptions(const std::string& prefix, const v1::WorkerConfig& worker, std::vector<FieldViolation>& out) {
  if (worker.lora_cache_bytes() < 0) out.push_back({prefix + "lora_cache_bytes", "must be 0 or more"});
  const double seconds = worker.checkpoint_seconds();
  if (!std::isfinite(seconds) || seconds < 0) {
    out.push_back({prefix + "checkpoint_seconds", absl::StrCat(seconds, " must be a number of seconds, 0 or more")});
  }
}

void CheckGroup(const std::string& prefix, const v1::GroupConfig& group, bool shares_store,
                std::vector<FieldViolation>& out) {
  const v1::WorkerConfig& worker = group.worker();
  if (!IsGroupId(group.id())) {
    out.push_back(
        {prefix + "id", absl::StrCat("\"", group.id(), "\" must consist of letters, digits, \"-\", \"_\" and \".\"")});
  }
  if (group.processes() < 0) out.push_back({prefix + "processes", "must be 1 or more"});
  if (group.outside()) {
    if (worker.ByteSizeLong() == 0) return;
    return out.push_back(
        {prefix + "worker", "has no effect in an outside group: the launcher gives each rank its flags"});
  }
  if (group.processes() > 1 && worker.ranks().empty()) {
    out.push_back(
        {prefix + "worker.ranks", absl::StrCat("must be set to divide the work among the ", group.processes(),
                                               " processes, for example \"tokens=", group.processes(), "\"")});
  }
  if (worker.model().empty()) out.push_back({prefix + "worker.model", "must name at least one path"});
  if (worker.memory_share() != 0) CheckShare(prefix + "worker.memory_share", worker.memory_share(), out);
  for (const auto& [field, set] :
       {std::pair{"group", !worker.group().empty()}, {"world_size", worker.world_size() != 0}}) {
    if (set) out.push_back({absl::StrCat(prefix, "worker.", field), "must be empty: the frontend sets it"});
  }
  CheckRunOptions(prefix + "worker.", worker, out);
  CheckSetBySupervisor(prefix + "worker.", worker, out);
  CheckJoinsHere(prefix + "worker.", worker, shares_store, out);
}

// Rejects fields of `worker` that have no effect because it names no model and so describes no group. Fields that the
// operator does not set are checked elsewhere.
void CheckDescribesNothing(const v1::WorkerConfig& worker, std::vector<FieldViolation>& out) {
  const v1::WorkerConfig defaults = DefaultWorkerConfig();
  std::vector<const google::protobuf::FieldDescriptor*> given;
  worker.GetReflection()->ListFields(worker, &given);
  for (const google::protobuf::FieldDescriptor* field : given) {
    if (field->options().GetExtension(v1::flag).set_by() != v1::FlagOptions::SET_BY_UNSPECIFIED) continue;
    std::string value, usual;
    google::protobuf::TextFormat::PrintFieldValueToString(worker, field, -1, &value);
    google::protobuf::TextFormat::PrintFieldValueToString(defaults, field, -1, &usual);
    if (value == usual || value == "\"\"") continue;
    out.push_back(
        {absl::StrCat("worker.", field->name()), "has no effect without worker.model: set it in each entry of groups"});
  }
}

void CheckGroups(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  if (config.worker().model().empty()) {
    CheckDescribesNothing(config.worker(), out);
  } else {
    CheckShare("worker.memory_share", config.worker().memory_share(), out);
  }
  CheckSetBySupervisor("worker.", config.worker(), out);
  CheckRunOptions("worker.", config.worker(), out);
  CheckJoinsHere("worker.", config.worker(), !IsBucketUrl(config.artifacts()), out);
  if (config.worker().world_size() > 1) {
    out.push_back({"worker.world_size", "is set by the frontend: use groups with processes instead"});
  }
  if (!config.groups().empty() && !config.worker().model().empty()) {
    out.push_back({"groups", "cannot be combined with worker.model: move that worker into groups"});
  }
  std::set<std::string> ids;
  for (int i = 0; i < config.groups_size(); ++i) {
    const std::string prefix = absl::StrCat("groups[", i, "].");
    CheckGroup(prefix, config.groups(i), !IsBucketUrl(config.artifacts()), out);
    if (!ids.insert(config.groups(i).id()).second) {
      out.push_back(
          {prefix + "id", absl::StrCat("\"", config.groups(i).id(), "\" is already the id of another group")});
    }
  }
  std::set<std::string> pages;
  for (const v1::GroupConfig& group : GroupsOf(config)) {
    const std::string& address = group.worker().http_address();
    if (address.empty() || absl::EndsWith(address, ":0") || pages.insert(address).second) continue;
    out.push_back({"groups", absl::StrCat("two groups have the same http_address, ", address)});
  }
}

// Rejects files that protect the port only together with a missing one, since the operator would believe it protected.
// `field`: "tls", "join_tls".
void CheckTls(const std::string& field, const v1::TlsConfig& tls, std::vector<FieldViolation>& out) {
  const std::string certificate = field + ".certificate_file", key = field + ".key_file";
  if (!tls.certificate_file().empty() && tls.key_file().empty())
    out.push_back({key, "must be set together with " + certificate});
  if (!tls.certificate_file().empty()) return;
  for (const auto& [name, value] :
       {std::pair{key, tls.key_file()}, {field + ".client_ca_file", tls.client_ca_file()}}) {
    if (value.empty()) continue;
    out.push_back(
        {name, absl::StrCat("has no effect without ", certificate, ", since the port is unencrypted: set both")});
  }
}

void CheckJoin(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  const v1::TlsConfig& tls = config.join_tls();
  if (config.join_address().empty()) {
    for (const auto& [field, value] : {std::pair{"join_tls.certificate_file", tls.certificate_file()},
                                       {"join_tls.key_file", tls.key_file()},
                                       {"join_tls.client_ca_file", tls.client_ca_file()},
                                       {"join_token_file", config.join_token_file()}}) {
      if (!value.empty()) out.push_back({field, "has no effect without join_address: set both"});
    }
    return;
  }
  CheckTls("join_tls", tls, out);
  if (absl::StartsWith(config.join_address(), "unix:")) {
    out.push_back({"join_address",
                   "must be host:port: workers can already join over the Unix socket <state_directory>/worker.sock"});
  }
  if (config.join_token_file().empty() && tls.client_ca_file().empty() && !config.insecure()) {
    out.push_back({"join_token_file",
                   "must be set with join_address, or join_tls.client_ca_file, because joined workers receive jobs"});
  }
}

// Whether it is host:port or [address]:port, and not all addresses of a machine.
bool IsDialled(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || IsWildcard(address)) return false;
  const std::string host = address.substr(0, colon);
  const bool in_brackets = host.front() == '[' && host.back() == ']';
  int port = 0;
  return (in_brackets || host.find_first_of(":/") == std::string::npos) &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port < 65536;
}

void CheckAdvertised(const char* field, const std::string& address, const char* of, const std::string& listens,
                     std::vector<FieldViolation>& out) {
  if (listens.empty()) {
    if (!address.empty()) out.push_back({field, absl::StrCat("has no effect without ", of, ": set both")});
  } else if (address.empty() && !IsDialled(listens)) {
    out.push_back({field, absl::StrCat("must be set to host:port, since others cannot dial ", of, ", ", listens)});
  } else if (!address.empty() && !IsDialled(address)) {
    out.push_back({field, absl::StrCat("\"", address, "\" must be a host:port that others can dial")});
  }
}

constexpr char kSharesNothing[] =
    "has no effect unless store is a PostgreSQL database and artifacts a bucket: otherwise frontends share nothing";

bool IsShared(const v1::FrontendConfig& config) {
  return IsDatabaseUrl(StoreOf(config)) && IsBucketUrl(config.artifacts());
}

void CheckPeers(const v1::FrontendConfig& config, std::vector<FieldViolation>& out) {
  const v1::TlsConfig& tls = config.peer_tls();
  const std::string& address = config.peer_address();
  if (address.empty()) {
    for (const auto& [field, value] : {std::pair{"peer_tls.certificate_file", tls.certificate_file()},
                                       {"peer_tls.key_file", tls.key_file()},
                                       {"peer_tls.client_ca_file", tls.client_ca_file()},
                                       {"peer_ca_file", config.peer_ca_file()},
                                       {"peer_token_file", config.peer_token_file()}}) {
      if (!value.empty()) out.push_back({field, "has no effect without peer_address: set both"});
    }
  } else {
    if (!IsShared(config)) out.push_back({"peer_address", kSharesNothing});
    CheckTls("peer_tls", tls, out);
    if (tls.certificate_file().empty() != config.peer_ca_file().empty()) {
      out.push_back({config.peer_ca_file().empty() ? "peer_ca_file" : "peer_tls.certificate_file",
                     "peer_ca_file and peer_tls.certificate_file must be set together: frontends are both server and "
                     "client"});
    }
    if (config.peer_token_file().empty() && !config.insecure()) {
      out.push_back({"peer_token_file", "must be set with peer_address, because its callers read and change jobs"});
    }
  }
  if (!config.advertise_join_address().empty() && !IsShared(config)) {
    out.push_back({"advertise_join_address", kSharesNothing});
  } else if (!address.empty() || !config.advertise_join_address().empty()) {  // else there are no others to tell
    CheckAdvertised("advertise_join_address", config.advertise_join_address(), "join_address", config.join_address(),
                    out);
  }
  CheckAdvertised("advertise_peer_address", config.advertise_peer_address(), "peer_address", address, out);
  if (!config.peer_server_name().empty() && config.peer_ca_file().empty()) {
    out.push_back(
        {"peer_server_name", "has no effect without peer_ca_file, since no certificate is checked: set both"});
  }
}

}  // namespace

bool PeersMayBeExposed(const v1::FrontendConfig& config) {
  return config.insecure() || (!config.peer_tls().certificate_file().empty() && !config.peer_token_file().empty());
}

std::string AdvertisedPeerAddress(const v1::FrontendConfig& config) {
  return config.advertise_peer_address().empty() ? config.peer_address() : config.advertise_peer_address();
}

std::string AdvertisedJoinAddress(const v1::FrontendConfig& config) {
  if (!config.advertise_join_address().empty()) return config.advertise_join_address();
  return IsDialled(config.join_address()) ? config.join_address() : "";
}

bool MayBeExposed(const v1::FrontendConfig& config, const std::string& token_file) {
  return config.insecure() || (!config.tls().certificate_file().empty() && !token_file.empty());
}

bool JoinMayBeExposed(const v1::FrontendConfig& config) {
  return config.insecure() || (!config.join_tls().certificate_file().empty() &&
                               (!config.join_token_file().empty() || !config.join_tls().client_ca_file().empty()));
}

absl::Status CheckWorkerConfig(const v1::WorkerConfig& config) {
  std::vector<FieldViolation> out;
  if (config.frontend().empty()) {
    out.push_back({"frontend", "must be the address to join (an embedded worker gets it from its frontend)"});
  }
  if (config.model().empty()) out.push_back({"model", "must name at least one path"});
  CheckShare("memory_share", config.memory_share(), out);
  CheckRunOptions("", config, out);
  if (config.world_size() < 1) out.push_back({"world_size", absl::StrCat(config.world_size(), " must be 1 or more")});
  if (config.rank() < 0 || config.rank() >= std::max(1, config.world_size())) {
    out.push_back(
        {"rank", absl::StrCat(config.rank(), " must be 0 or more and less than world_size, ", config.world_size())});
  }
  if (absl::StartsWith(config.frontend(), "unix:"))
    CheckJoinsHere("", config, /*shares_store=*/false, out);  // the frontend alone knows
  const v1::ClientTlsConfig& tls = config.tls();
  if (tls.certificate_file().empty() != tls.key_file().empty()) {
    out.push_back({tls.key_file().empty() ? "tls.key_file" : "tls.certificate_file",
                   "tls.certificate_file and tls.key_file must be set together"});
  }
  if (!tls.certificate_file().empty() && tls.ca_file().empty()) {
    out.push_back({"tls.ca_file", "must be set with tls.certificate_file, to verify the frontend's certificate"});
  }
  return out.empty() ? absl::OkStatus() : InvalidFields(out);
}

absl::Status CheckFrontendConfig(const v1::FrontendConfig& config) {
  std::vector<FieldViolation> out;
  CheckListeners(config, out);
  CheckTls("tls", config.tls(), out);
  CheckJoin(config, out);
  CheckPeers(config, out);
  if (config.state_directory().empty()) out.push_back({"state_directory", "must not be empty"});
  CheckStoreField(config, out);
  CheckBucketFields(config, out);
  CheckWord("log_format", config.log_format(), {"text", "json"}, out);
  CheckLimits(config, out);
  CheckGroups(config, out);
  return out.empty() ? absl::OkStatus() : InvalidFields(out);
}

}  // namespace kinora
