#include "server/gateway/gateway.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/build_version.h"
#include "server/common/metrics.h"
#include "server/common/regular_file.h"
#include "server/gateway/handlers.h"
#include "server/gateway/http_server.h"
#include "server/gateway/request_fields.h"
#include "server/gateway/routes.h"
#include "server/net/server_address.h"
#include "server/net/tls_files.h"

namespace kinora {
namespace {

constexpr int kApiPort = 8470;

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(const GatewayFlags& flags,
                                                                         const ServerAddress& address) {
  const std::string authorities = address.plain && !flags.frontend_tls ? "" : flags.frontend_tls_ca;
  if (!address.tls && !flags.frontend_tls && authorities.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!authorities.empty()) {
    absl::StatusOr<RegularFile> file = ReadRegularFile(authorities);
    if (!file.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--frontend-tls-ca ", std::string(file.status().message())));
    }
    options.pem_root_certs = std::move(file->bytes);
  }
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // A restarted frontend is reached within two seconds, and one that has vanished is noticed within half a minute.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // otherwise equal channels share a connection
  return arguments;
}

// The calls to an admin address are few, and count against the limit of the same frontend.
constexpr CallQueueLimits kAdminLimits = {.beginning = 4, .waiting = 400};

// The addresses are of `flag`. default_port: 0: none.
absl::StatusOr<Frontends::List> ConnectAll(const GatewayFlags& flags, const char* flag,
                                           const std::vector<std::string>& addresses, int default_port,
                                           const CallQueueLimits& limits) {
  Frontends::List frontends;
  for (const std::string& text : addresses) {
    const absl::StatusOr<ServerAddress> address = ParseServerAddress(text, default_port);
    if (!address.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " ", text, ": ", std::string(address.status().message())));
    }
    KINORA_ASSIGN_OR_RETURN(const auto credentials, CredentialsFor(flags, *address));
    const auto connect = [target = address->target, credentials = credentials] {
      return grpc::CreateCustomChannel(target, credentials, Arguments());
    };
    frontends.push_back(std::make_unique<FrontendClient>(address->target, connect, flags.timeout, limits));
  }
  return frontends;
}

absl::StatusOr<HttpTls> LoadTls(const GatewayFlags& flags) {
  if (flags.tls.certificate_file().empty()) return HttpTls{};
  KINORA_ASSIGN_OR_RETURN(TlsFiles files, LoadTlsFiles(flags.tls, Clock::Real().Now()));
  Log(Severity::kInfo, "tls_certificate", {{"expires", absl::FormatTime(files.expiry, absl::UTCTimeZone())}});
  return HttpTls{std::move(files.certificate_chain), std::move(files.private_key), std::move(files.client_ca)};
}

absl::Status CheckScratch(const std::string& folder) {
  const absl::StatusOr<std::unique_ptr<SpoolFile>> file = SpoolFile::Create(folder);
  if (file.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--scratch-directory ", folder, ": ", std::string(file.status().message())));
}

absl::StatusOr<std::string> LoadKey(const std::string& path) {
  absl::StatusOr<std::string> key = LoadLinkKey(path);
  if (key.ok()) return key;
  return absl::InvalidArgumentError(absl::StrCat("--link-key-file ", std::string(key.status().message())));
}

absl::StatusOr<std::vector<AllowedHost>> UrlHosts(const GatewayFlags& flags) {
  std::vector<AllowedHost> hosts;
  for (const std::string& text : flags.input_url_hosts) {
    absl::StatusOr<AllowedHost> host = ParseAllowedHost(text);
    if (!host.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--input-url-host ", text, ": ", std::string(host.status().message())));
    }
    hosts.push_back(*std::move(host));
  }
  return hosts;
}

class HttpGateway : public Gateway {
 public:
  HttpGateway(const GatewayFlags& flags, Frontends::List frontends, Frontends::List admins, std::string link_key)
      : flags_(flags),
        frontends_(std::move(frontends)),
        admins_(std::move(admins)),
        links_(std::move(link_key), Clock::Real()),
        body_memory_(flags.max_body_memory_bytes),
        scratch_space_(flags.max_scratch_bytes) {
    RegisterBuildInfo(page_.registry());
  }
  ~HttpGateway() override {
    if (server_ != nullptr) server_->Stop(absl::ZeroDuration());
    if (fetcher_ != nullptr) fetcher_->Stop();  // while what its callbacks use is there
  }

  absl::Status StartFetcher(std::vector<AllowedHost> hosts) {
    if (hosts.empty()) return absl::OkStatus();
    InputFetcher::Options options = {.hosts = hosts,
                                     .scratch_folder = flags_.scratch_folder,
                                     .max_bytes = flags_.max_upload_bytes,
                                     .scratch_space = scratch_space_,
                                     .timeout = flags_.input_url_timeout};
    if (!flags_.input_url_ca.empty()) {
      absl::StatusOr<RegularFile> file = ReadRegularFile(flags_.input_url_ca);
      if (!file.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("--input-url-ca ", std::string(file.status().message())));
      }
      options.authorities = std::move(file->bytes);
    }
    absl::StatusOr<std::unique_ptr<InputFetcher>> fetcher = InputFetcher::Start(std::move(options));
    if (!fetcher.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--input-url-ca ", flags_.input_url_ca, ": ", std::string(fetcher.status().message())));
    }
    fetcher_ = *std::move(fetcher);
    context_.url_hosts = std::move(hosts);
    context_.fetcher = fetcher_.get();
    return absl::OkStatus();
  }

  absl::Status Listen(HttpTls tls) {
    const bool local_only = tls.certificate_chain.empty() && !flags_.insecure;
    HttpServerOptions options = {
        .address = flags_.address,
        .local_only = local_only,
        .listen_fds = flags_.listen_fds,
        .hosts = flags_.hosts,
        .trusted_proxies = flags_.trusted_proxies,
        .tls = std::move(tls),
        .threads = flags_.threads,
        .max_connections = flags_.max_connections,
        .max_connections_per_client = flags_.max_connections_per_client,
        .max_requests_per_second = flags_.max_requests_per_second,
        .parser = {.body_bytes = static_cast<uint64_t>(flags_.max_upload_bytes) + kMaxFieldsBytes},
        .handler = [this](std::shared_ptr<HttpExchange> exchange) { router_.Handle(std::move(exchange)); },
        .problem_reply = ProblemReply,
        .metrics = metrics_};
    absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(std::move(options));
    if (!server.ok() && local_only && absl::IsInvalidArgument(server.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(server.status().message()),
                       "; an address other than loopback needs --tls-certificate-file, or --insecure"));
    }
    KINORA_RETURN_IF_ERROR(server.status());
    server_ = *std::move(server);
    return absl::OkStatus();
  }

  void Drain() override { server_->Stop(flags_.drain_grace); }
  int port() const override { return server_->port(); }

 private:
  std::string MetricsText() {
    metrics_.body_memory_bytes.Set(static_cast<double>(body_memory_.taken()));
    metrics_.scratch_bytes.Set(static_cast<double>(scratch_space_.taken()));
    for (const auto& frontend : frontends_.all()) {
      metrics_.frontend_connected.Add({{"frontend", frontend->address()}}).Set(frontend->IsConnected() ? 1 : 0);
    }
    return page_.Text();
  }

  const GatewayFlags flags_;
  MetricsPage page_;
  GatewayMetrics metrics_{page_.registry()};
  Frontends frontends_;
  const Frontends::List admins_;
  const LinkSealer links_;
  ByteBudget body_memory_, scratch_space_;
  std::unique_ptr<InputFetcher> fetcher_;  // null: no URLs are fetched
  HandlerContext context_{.frontends = frontends_,
                          .admins = admins_,
                          .metrics = metrics_,
                          .metrics_text = [this] { return MetricsText(); },
                          .scratch_folder = flags_.scratch_folder,
                          .max_upload_bytes = flags_.max_upload_bytes,
                          .body_memory = body_memory_,
                          .scratch_space = scratch_space_,
                          .links = links_};
  const Router router_{MakeRoutes(context_)};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(const GatewayFlags& flags) {
  KINORA_ASSIGN_OR_RETURN(Frontends::List frontends, ConnectAll(flags, "--frontend", flags.frontends, kApiPort, {}));
  KINORA_ASSIGN_OR_RETURN(Frontends::List admins, ConnectAll(flags, "--admin", flags.admins, 0, kAdminLimits));
  KINORA_ASSIGN_OR_RETURN(HttpTls tls, LoadTls(flags));
  KINORA_RETURN_IF_ERROR(CheckScratch(flags.scratch_folder));
  KINORA_ASSIGN_OR_RETURN(std::string link_key, LoadKey(flags.link_key_file));
  KINORA_ASSIGN_OR_RETURN(std::vector<AllowedHost> hosts, UrlHosts(flags));
  auto gateway = std::make_unique<HttpGateway>(flags, std::move(frontends), std::move(admins), std::move(link_key));
  KINORA_RETURN_IF_ERROR(gateway->StartFetcher(std::move(hosts)));
  KINORA_RETURN_IF_ERROR(gateway->Listen(std::move(tls)));
  return std::unique_ptr<Gateway>(std::move(gateway));
}

}  // namespace kinora
