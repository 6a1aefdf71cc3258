#include "server/config/config.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr int kWorkerHttpPort = 8481;
constexpr char kWebAddress[] = "127.0.0.1:8472";

}  // namespace

v1::FrontendConfig DefaultFrontendConfig() {
  v1::FrontendConfig config;
  config.set_address("127.0.0.1:8470");
  config.set_http_address("127.0.0.1:8480");
  config.set_state_directory("kinora-state");
  config.set_queue_capacity(1000);
  config.set_max_watchers(1000);
  config.set_default_ttl_seconds(7 * 86400);
  config.set_max_ttl_seconds(30 * 86400);
  config.set_sweep_interval_seconds(60);
  config.set_disconnect_grace_seconds(30);
  config.set_heartbeat_interval_seconds(10);
  config.set_lease_seconds(30);
  config.set_drain_grace_seconds(20);
  config.set_max_lost_groups(2);
  config.set_min_free_bytes(int64_t{1} << 30);
  config.set_max_connections(1000);
  config.set_max_downloads(256);
  config.set_max_downloads_per_client(32);
  config.set_download_idle_seconds(60);
  config.set_max_call_memory_bytes(int64_t{512} << 20);
  config.set_max_uploads(32);
  config.set_max_uploads_per_client(8);
  config.set_upload_idle_seconds(30);
  config.set_max_input_bytes(int64_t{1} << 30);
  config.set_input_quota_bytes(int64_t{16} << 30);
  config.set_input_ttl_seconds(7 * 86400);
  config.set_log_format("text");
  config.set_worker_step_floor_seconds(60);
  config.set_worker_heartbeat_timeout_seconds(15);
  config.set_group_join_timeout_seconds(300);
  *config.mutable_worker() = DefaultWorkerConfig();
  return config;
}

v1::WorkerConfig DefaultWorkerConfig() {
  v1::WorkerConfig config;
  config.set_precision("bf16");
  config.set_http_address(absl::StrCat("127.0.0.1:", kWorkerHttpPort));
  config.set_group("0");
  config.set_log_format("text");
  config.set_world_size(1);
  config.set_memory_share(1);
  config.set_lora_cache_bytes(int64_t{1} << 30);
  config.set_checkpoint_seconds(30);
  return config;
}

std::vector<v1::GroupConfig> GroupsOf(const v1::FrontendConfig& config) {
  std::vector<v1::GroupConfig> groups;
  for (const v1::GroupConfig& group : config.groups()) {
    if (!group.outside()) groups.push_back(group);
  }
  if (groups.empty() && !config.worker().model().empty()) {
    v1::GroupConfig& group = groups.emplace_back();
    group.set_id(config.worker().group());
    *group.mutable_worker() = config.worker();
    group.set_processes(1);
    return groups;
  }
  int port = kWorkerHttpPort;
  for (v1::GroupConfig& group : groups) {
    group.set_processes(std::max(1, group.processes()));
    v1::WorkerConfig worker = DefaultWorkerConfig();
    worker.set_http_address(absl::StrCat("127.0.0.1:", port));
    worker.set_memory_share(1.0 / static_cast<double>(groups.size()));
    worker.MergeFrom(group.worker());
    worker.set_group(group.id());
    *group.mutable_worker() = std::move(worker);
    port += group.processes();
  }
  return groups;
}

std::map<std::string, int> OutsideGroupsOf(const v1::FrontendConfig& config) {
  std::map<std::string, int> groups;
  for (const v1::GroupConfig& group : config.groups()) {
    if (group.outside()) groups[group.id()] = std::max(1, group.processes());
  }
  return groups;
}

std::string HttpAddressOf(const v1::WorkerConfig& config) {
  const std::string& address = config.http_address();
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0) return address;
  return absl::StrCat(address.substr(0, colon + 1), port + config.rank());
}

std::string StoreOf(const v1::FrontendConfig& config) {
  if (!config.store().empty()) return config.store();
  return config.job_store().empty() ? "sqlite" : config.job_store();
}

bool IsDatabaseUrl(const std::string& store) {
  return absl::StartsWith(store, "postgresql://") || absl::StartsWith(store, "postgres://");
}

bool IsBucketUrl(const std::string& artifacts) { return absl::StartsWith(artifacts, "s3://"); }

std::string FolderOfUrl(const std::string& artifacts) {
  constexpr char kFile[] = "file://";
  const bool is_folder = absl::StartsWith(artifacts, absl::StrCat(kFile, "/")) && artifacts != "file:///";
  return is_folder ? artifacts.substr(std::string(kFile).size()) : "";
}

std::string WebAddressOf(const v1::FrontendConfig& config) {
  if (config.has_web_address()) return config.web_address();
  return GroupsOf(config).empty() ? "" : kWebAddress;
}

std::string GatewaySocketOf(const v1::FrontendConfig& config) {
  if (WebAddressOf(config).empty()) return "";
  std::error_code error;
  const auto state = std::filesystem::absolute(config.state_directory(), error).lexically_normal();
  return absl::StrCat("unix:", (state / "gateway.sock").string());
}

}  // namespace kinora
