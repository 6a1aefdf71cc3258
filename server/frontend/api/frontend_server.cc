#include "server/frontend/api/frontend_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // a prompt of a megabyte is refused by name, not by the transport
constexpr int kMaxStreams = 1000;          // calls at once on one connection
constexpr char kServing[] = "kinora.v1.VideoGeneration";
constexpr size_t kMaxSocketPath = 107;

absl::StatusOr<std::string> ReadPem(const char* field, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) return InvalidField(field, absl::StrCat("cannot read ", path));
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const v1::TlsConfig& tls) {
  if (tls.certificate_file().empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  KINORA_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem("tls.certificate_file", tls.certificate_file()));
  KINORA_ASSIGN_OR_RETURN(pair.private_key, ReadPem("tls.key_file", tls.key_file()));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!tls.client_ca_file().empty()) {
    KINORA_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("tls.client_ca_file", tls.client_ca_file()));
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server on the port is an error, not a lottery
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);  // finds clients that vanished without a word
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
}

absl::Status CheckSocketPath(const char* field, const std::string& address) {
  constexpr char kUnix[] = "unix:";
  if (!absl::StartsWith(address, kUnix) || address.size() - 5 <= kMaxSocketPath) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("a socket's path has at most ", kMaxSocketPath, " characters: ", address));
}

class Server : public FrontendServer {
 public:
  ~Server() override { Shutdown(absl::ZeroDuration()); }

  absl::Status Listen(const v1::FrontendConfig& config, ServiceContext& context, GroupControl control,
                      TokenSet admin_tokens) {
    KINORA_RETURN_IF_ERROR(CheckSocketPath("address", config.address()));
    KINORA_RETURN_IF_ERROR(CheckSocketPath("admin_address", config.admin_address()));
    KINORA_ASSIGN_OR_RETURN(const auto credentials, Credentials(config.tls()));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    video_ = MakeVideoService(context);
    models_ = MakeModelsService(context);
    admin_ = MakeAdminService(std::move(control), std::move(admin_tokens));

    grpc::ServerBuilder builder;
    SetLimits(builder);
    builder.AddListeningPort(config.address(), credentials, &port_);
    builder.RegisterService(video_.get());
    builder.RegisterService(models_.get());
    public_server_ = builder.BuildAndStart();
    // A Unix socket's "port" is 1 in gRPC.
    if (public_server_ == nullptr || port_ <= 0) return CannotListen("address", config.address());

    grpc::ServerBuilder admin_builder;
    SetLimits(admin_builder);
    const bool plain = absl::StartsWith(config.admin_address(), "unix:");
    admin_builder.AddListeningPort(config.admin_address(), plain ? grpc::InsecureServerCredentials() : credentials);
    admin_builder.RegisterService(admin_.get());
    admin_server_ = admin_builder.BuildAndStart();
    if (admin_server_ == nullptr) return CannotListen("admin_address", config.admin_address());
    SetAccepting(true);
    SetReady(false, {});
    return absl::OkStatus();
  }

  void SetAccepting(bool accepting) override {
    public_server_->GetHealthCheckService()->SetServingStatus("", accepting);
  }

  void SetReady(bool ready, const std::map<std::string, bool>& groups) override {
    auto* health = public_server_->GetHealthCheckService();
    health->SetServingStatus(kServing, ready);
    for (const auto& [id, serving] : groups) health->SetServingStatus(absl::StrCat("kinora.group.", id), serving);
  }

  void Shutdown(absl::Duration grace) override {
    const auto deadline = absl::ToChronoTime(absl::Now() + grace);
    if (public_server_ != nullptr) public_server_->Shutdown(deadline);
    if (admin_server_ != nullptr) admin_server_->Shutdown(deadline);
    // The servers stay until the destructor: groups that are lost meanwhile still report their health.
  }

  int port() const override { return port_ > 1 ? port_ : 0; }

 private:
  static absl::Status CannotListen(const char* field, const std::string& address) {
    return absl::UnavailableError(
        absl::StrCat(field, ": cannot listen on ", address, " (in use, or not host:port or unix:PATH)"));
  }

  // The services outlive the servers.
  std::unique_ptr<grpc::Service> video_, models_, admin_;
  std::unique_ptr<grpc::Server> public_server_, admin_server_;
  int port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FrontendServer>> FrontendServer::Start(const v1::FrontendConfig& config,
                                                                      ServiceContext& context, GroupControl control,
                                                                      TokenSet admin_tokens) {
  auto server = std::make_unique<Server>();
  KINORA_RETURN_IF_ERROR(server->Listen(config, context, std::move(control), std::move(admin_tokens)));
  return server;
}

}  // namespace kinora
