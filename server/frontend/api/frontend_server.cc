#include "server/frontend/api/frontend_server.h"

#include <grpc/compression.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/config.h"
#include "server/common/grpc_credentials.h"
#include "server/common/grpc_listener.h"
#include "server/common/status_details.h"
#include "server/frontend/api/health_service.h"
#include "server/frontend/api/reflection_service.h"
#include "server/frontend/api/self_check.h"

namespace kinora {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // a prompt of a megabyte is refused by name, not by the transport
constexpr int kMaxStreams = 128;           // calls at once on one connection
constexpr char kServing[] = "kinora.v1.VideoGeneration";

// Of calls that may read: what they wait for comes with their headers or soon after. Of calls without a token (health
// alone) as long as a connection's worst delay: what they could send in it is what they can make the server hold.
constexpr MessageReadLimits kReads = {.calls = 32, .time = absl::Seconds(10)};
constexpr MessageReadLimits kStrangersReads = {.calls = 8, .time = absl::Milliseconds(250)};

void SetLimits(const grpc::ResourceQuota& memory, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(memory);
  // Else gRPC lets a sender have megabytes on the way for each call, read or not; so it is 64 KiB until a call reads.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // A compressed message would be unpacked before its size is looked at.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);  // a connection that says nothing
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);  // clients ask each 20 s
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);  // finds clients that vanished without a word
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
}

// What a listener says of its connections.
GrpcListenerOptions Listening(const char* field, const std::string& address, bool local_only, int max_connections,
                              FrontendMetrics& metrics) {
  GrpcListenerOptions options;
  options.field = field;
  options.address = address;
  options.local_only = local_only;
  options.max_connections = max_connections;
  options.max_calls = kMaxStreams;
  CountConnections(metrics, options);
  return options;
}

class Server : public FrontendServer {
 public:
  ~Server() override { Shutdown(absl::ZeroDuration()); }

  absl::Status Listen(const v1::FrontendConfig& config, ServiceContext& context, GroupControl control,
                      TokenSet admin_tokens) {
    KINORA_ASSIGN_OR_RETURN(public_listener_, GrpcListener::Bind(Listening("address", config.address(),
                                                                           !MayBeExposed(config, config.token_file()),
                                                                           config.max_connections(), context.gauges)));
    KINORA_ASSIGN_OR_RETURN(admin_listener_,
                            GrpcListener::Bind(Listening("admin_address", config.admin_address(),
                                                         !MayBeExposed(config, config.admin_token_file()),
                                                         kMaxAdminConnections, context.gauges)));
    KINORA_ASSIGN_OR_RETURN(const auto credentials,
                            MakeServerCredentials(config.tls(), "tls", NoClientCertificate::kDoesNotConnect));
    grpc::EnableDefaultHealthCheckService(false);  // it reads whatever anybody sends
    MakeServices(context, std::move(control), std::move(admin_tokens));
    memory_.Resize(static_cast<size_t>(config.max_call_memory_bytes()));

    grpc::ServerBuilder builder;
    SetLimits(memory_, builder);
    public_listener_->AddTo(builder, credentials);
    for (const auto& service : {video_.get(), models_.get(), reflection_.get()}) builder.RegisterService(service);
    builder.RegisterService(health_.get());
    public_server_ = builder.BuildAndStart();
    if (public_server_ == nullptr) return absl::InternalError("address: gRPC starts no server");

    grpc::ServerBuilder admin_builder;
    SetLimits(memory_, admin_builder);
    const bool plain = absl::StartsWith(config.admin_address(), "unix:");
    admin_listener_->AddTo(admin_builder, plain ? grpc::InsecureServerCredentials() : credentials);
    admin_builder.RegisterService(admin_.get());
    admin_builder.RegisterService(admin_reflection_.get());
    admin_server_ = admin_builder.BuildAndStart();
    if (admin_server_ == nullptr) return absl::InternalError("admin_address: gRPC starts no server");
    SetAccepting(true);
    SetReady(false, {});
    public_listener_->Serve();
    admin_listener_->Serve();
    self_check_.emplace([this] { return public_listener_->CheckSelf(kSelfCheckPatience); }, Clock::Real());
    return absl::OkStatus();
  }

  void SetAccepting(bool accepting) override { health_->Set("", accepting); }

  void SetReady(bool ready, const std::map<std::string, bool>& groups) override {
    health_->Set(kServing, ready);
    for (const auto& [id, serving] : groups) health_->Set(absl::StrCat("kinora.group.", id), serving);
  }

  void Shutdown(absl::Duration grace) override {
    const auto deadline = absl::ToChronoTime(absl::Now() + grace);
    self_check_.reset();
    if (public_listener_ != nullptr) public_listener_->Stop();
    if (admin_listener_ != nullptr) admin_listener_->Stop();
    if (public_server_ != nullptr) public_server_->Shutdown(deadline);
    if (admin_server_ != nullptr) admin_server_->Shutdown(deadline);
    // The servers stay until the destructor: groups that are lost meanwhile still report their health.
  }

  absl::Status Live() const override { return self_check_ ? self_check_->Live() : absl::OkStatus(); }

  int port() const override { return public_listener_->port(); }

 private:
  void MakeServices(ServiceContext& context, GroupControl control, TokenSet admin_tokens) {
    log_ = std::make_unique<CallLog>(context.metrics);
    admin_tokens_ = std::move(admin_tokens);
    const CallAccess access{.tokens = &context.tokens, .log = log_.get(), .reads = &reads_};
    video_ = MakeVideoService(context, access);
    models_ = MakeModelsService(context, access);
    reflection_ = MakeReflectionService({kServing, "kinora.v1.Models", "grpc.health.v1.Health"}, access);
    CallAccess anybody = access;
    anybody.strangers = &strangers_reads_;
    health_ = std::make_unique<HealthService>(anybody);
    CallAccess admin_access = access;
    admin_access.tokens = &admin_tokens_;
    admin_ = MakeAdminService(std::move(control), admin_access);
    admin_reflection_ = MakeReflectionService({"kinora.v1.Admin"}, admin_access);
  }

  // What calls use, then the services, outlive the servers. Time is the network's, whatever the clock of the jobs is.
  MessageReads reads_{kReads, Clock::Steady()}, strangers_reads_{kStrangersReads, Clock::Steady()};
  std::unique_ptr<CallLog> log_;
  TokenSet admin_tokens_;
  std::unique_ptr<grpc::Service> video_, models_, reflection_, admin_, admin_reflection_;
  std::unique_ptr<HealthService> health_;
  grpc::ResourceQuota memory_{"calls"};
  std::unique_ptr<grpc::Server> public_server_, admin_server_;
  std::unique_ptr<GrpcListener> public_listener_, admin_listener_;
  std::optional<SelfCheck> self_check_;
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
