#include "server/frontend/gateway_supervisor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/growing_pause.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/config/config.h"

namespace kinora {
namespace {

constexpr absl::Duration kShortestPause = absl::Milliseconds(500), kLongestPause = absl::Seconds(30);
constexpr absl::Duration kGoodLife = absl::Minutes(1);
constexpr absl::Duration kDrainGrace = absl::Seconds(1);  // as for the streams of gRPC
constexpr absl::Duration kStopGrace = absl::Seconds(5);   // from SIGTERM to SIGKILL

bool IsUnix(const std::string& address) { return absl::StartsWith(address, "unix:"); }

bool IsLocal(const std::string& address) {
  const auto resolved = ResolveListenAddress(address);
  return resolved.ok() &&
         std::all_of(resolved->begin(), resolved->end(), [](const SocketAddress& one) { return one.IsLocal(); });
}

bool ServesTls(const v1::FrontendConfig& config) {
  if (config.tls().certificate_file().empty()) return false;
  return !config.tls().client_ca_file().empty() || !IsLocal(WebAddressOf(config));
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsName(const std::string& host) {
  in_addr bytes;
  return !host.empty() && host.front() != '[' && inet_pton(AF_INET, host.c_str(), &bytes) != 1;
}

std::vector<std::string> Arguments(const v1::FrontendConfig& config, size_t sockets) {
  const std::string address = WebAddressOf(config);
  std::vector<std::string> out = {
      absl::StrCat("--frontend=", GatewaySocketOf(config)),
      absl::StrCat("--address=", address),
      absl::StrCat("--lifeline-fd=", ChildProcess::kLifelineFd),
      absl::StrCat("--drain-grace=", absl::FormatDuration(kDrainGrace)),
      absl::StrCat("--max-upload-bytes=", config.max_input_bytes()),
      absl::StrCat("--log-format=", config.log_format()),
  };
  for (size_t i = 0; i < sockets; ++i) out.push_back(absl::StrCat("--listen-fd=", ChildProcess::kFirstGivenFd + i));
  if (!IsUnix(address) && IsName(HostOf(address))) out.push_back(absl::StrCat("--host=", HostOf(address)));
  if (!ServesTls(config)) return out;
  out.push_back(absl::StrCat("--tls-certificate-file=", config.tls().certificate_file()));
  out.push_back(absl::StrCat("--tls-key-file=", config.tls().key_file()));
  if (!config.tls().client_ca_file().empty()) {
    out.push_back(absl::StrCat("--tls-client-ca-file=", config.tls().client_ca_file()));
  }
  return out;
}

std::string Page(const v1::FrontendConfig& config, int port) {
  std::string address = WebAddressOf(config);
  if (IsUnix(address)) return address;
  return absl::StrCat(ServesTls(config) ? "https://" : "http://", HostOf(address), ":", port, "/");
}

absl::Status CheckRunnable(const std::string& binary) {
  if (access(binary.c_str(), X_OK) == 0) return absl::OkStatus();
  return InvalidField("gateway_binary", absl::StrCat("cannot run ", binary));
}

absl::StatusOr<ListeningSockets> BindPage(const v1::FrontendConfig& config) {
  KINORA_RETURN_IF_ERROR(CheckRunnable(config.gateway_binary()));
  return ListeningSockets::Bind("web_address", WebAddressOf(config), !MayBeExposed(config, config.token_file()));
}

}  // namespace

absl::Status CheckGatewayBinary(const v1::FrontendConfig& config) {
  return config.web_address().empty() ? absl::OkStatus() : CheckRunnable(config.gateway_binary());
}

absl::StatusOr<std::unique_ptr<GatewaySupervisor>> GatewaySupervisor::Bind(const v1::FrontendConfig& config,
                                                                           Clock& clock) {
  if (WebAddressOf(config).empty()) return nullptr;
  absl::StatusOr<ListeningSockets> sockets = BindPage(config);
  if (sockets.ok()) {
    return std::unique_ptr<GatewaySupervisor>(new GatewaySupervisor(config, *std::move(sockets), clock));
  }
  if (config.has_web_address()) return sockets.status();
  Log(Severity::kWarning, "no_web_page",
      {{"why", std::string(sockets.status().message())}, {"remedy", "set --web-address; empty: no page"}});
  return nullptr;
}

GatewaySupervisor::GatewaySupervisor(const v1::FrontendConfig& config, ListeningSockets sockets, Clock& clock)
    : binary_(config.gateway_binary()),
      arguments_(Arguments(config, sockets.sockets().size())),
      page_(Page(config, sockets.port())),
      sockets_(std::move(sockets)),
      clock_(clock) {}

void GatewaySupervisor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void GatewaySupervisor::Run() {
  GrowingPause pause(kShortestPause, kLongestPause);
  while (true) {
    const absl::Time born = clock_.Now();
    LiveOnce();
    if (clock_.Now() - born >= kGoodLife) pause.Reset();
    if (!Pause(pause.Next())) return;
  }
}

void GatewaySupervisor::LiveOnce() {
  std::vector<int> sockets;
  for (const FileDescriptor& socket : sockets_.sockets()) sockets.push_back(socket.get());
  ChildProcess* child = nullptr;
  std::string why;
  {
    absl::MutexLock lock(&mu_);
    if (stopping_) return;
    auto spawned = ChildProcess::Spawn(binary_, arguments_, /*secret=*/"", /*process_group=*/0, sockets);
    if (spawned.ok()) {
      child_ = *std::move(spawned);
      child = child_.get();
      Log(Severity::kInfo, "gateway_started", {{"pid", child->pid()}, {"page", page_}});
    } else {
      why = std::string(spawned.status().message());
    }
  }
  if (child != nullptr) why = child->Wait();
  absl::MutexLock lock(&mu_);
  child_.reset();
  Log(stopping_ ? Severity::kInfo : Severity::kWarning, "gateway_ended", {{"how", why}});
}

bool GatewaySupervisor::Pause(absl::Duration pause) {
  absl::MutexLock lock(&mu_);
  clock_.AwaitUntil(mu_, absl::Condition(&stopping_), clock_.Now() + pause);
  return !stopping_;
}

void GatewaySupervisor::Stop() {
  if (thread_.joinable()) {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
      if (child_ != nullptr) child_->Terminate();
      const auto gone = [this] {
        mu_.AssertHeld();
        return child_ == nullptr;
      };
      Clock& steady = Clock::Steady();
      if (!steady.AwaitUntil(mu_, absl::Condition(&gone), steady.Now() + kStopGrace)) child_->Kill();
    }
    thread_.join();
  }
  sockets_.Close();
}

}  // namespace kinora
