#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/config.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return absl::StartsWith(host, "127.") || host == "localhost" || host == "[::1]";
}

// A listener that other machines reach must be protected, or the operator must have said that it need not be.
void CheckListener(const v1::FrontendConfig& config, const char* field, const std::string& address,
                   const std::string& token_file, std::vector<FieldViolation>& out) {
  if (address.empty() || IsLoopback(address) || config.insecure()) return;
  if (config.tls().certificate_file().empty() || token_file.empty()) {
    out.push_back({field, absl::StrCat("\"", address,
                                       "\" is not loopback: set tls.certificate_file, tls.key_file and a "
                                       "token file, or insecure")});
  }
}

void CheckPositive(const char* field, double value, std::vector<FieldViolation>& out) {
  if (!(value > 0) || !std::isfinite(value)) out.push_back({field, absl::StrCat(value, " must be greater than 0")});
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

}  // namespace

absl::Status CheckFrontendConfig(const v1::FrontendConfig& config) {
  std::vector<FieldViolation> out;
  if (config.address().empty()) out.push_back({"address", "must be host:port or unix:PATH"});
  CheckListener(config, "address", config.address(), config.token_file(), out);
  CheckListener(config, "admin_address", config.admin_address(), config.admin_token_file(), out);
  if (!config.http_address().empty() && !IsLoopback(config.http_address()) && !config.insecure()) {
    out.push_back(
        {"http_address", "not loopback: the pages have no authentication; put a proxy before them or set insecure"});
  }
  if (config.tls().certificate_file().empty() != config.tls().key_file().empty()) {
    out.push_back({"tls", "certificate_file and key_file come together"});
  }
  if (config.state_directory().empty()) out.push_back({"state_directory", "must not be empty"});
  CheckWord("job_store", config.job_store(), {"sqlite", "memory"}, out);
  CheckWord("log_format", config.log_format(), {"text", "json"}, out);
  CheckPositive("queue_capacity", config.queue_capacity(), out);
  CheckPositive("max_watchers", config.max_watchers(), out);
  CheckPositive("max_lost_groups", config.max_lost_groups(), out);
  CheckPositive("default_ttl_seconds", config.default_ttl_seconds(), out);
  CheckPositive("max_ttl_seconds", config.max_ttl_seconds(), out);
  CheckPositive("sweep_interval_seconds", config.sweep_interval_seconds(), out);
  CheckPositive("heartbeat_interval_seconds", config.heartbeat_interval_seconds(), out);
  CheckPositive("lease_seconds", config.lease_seconds(), out);
  CheckPositive("worker_step_floor_seconds", config.worker_step_floor_seconds(), out);
  CheckPositive("worker_heartbeat_timeout_seconds", config.worker_heartbeat_timeout_seconds(), out);
  if (!(config.disconnect_grace_seconds() >= 0)) out.push_back({"disconnect_grace_seconds", "must be 0 or more"});
  if (!(config.drain_grace_seconds() >= 0)) out.push_back({"drain_grace_seconds", "must be 0 or more"});
  if (config.min_free_bytes() < 0) out.push_back({"min_free_bytes", "must be 0 or more"});
  return out.empty() ? absl::OkStatus() : InvalidFields(out);
}

}  // namespace kinora
