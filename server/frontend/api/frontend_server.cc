#include "server/frontend/api/frontend_server.h"

#include <grpc/compression.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/grpc_deadline.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/frontend/api/health_service.h"
#include "server/frontend/api/reflection_service.h"
#include "server/frontend/api/self_check.h"
#include "server/net/grpc_credentials.h"
#include "server/net/grpc_listener.h"

namespace kinora {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // a prompt of a megabyte is rejected by its field, not by the transport
constexpr int kMaxStreams = 128;           // concurrent calls per connection
constexpr int kMaxGatewayStreams = 4096;   // the calls of all its clients share a connection
constexpr char kServing[] = "kinora.v1.VideoGeneration";

// Limits on waiting for a message. With a valid token: messages come with the headers or soon after. Without one (only
// health): the worst network delay, because all that is sent within that time occupies memory of the server.
constexpr MessageReadLimits kReads = {.calls = 32, .time = absl::Seconds(10)};
constexpr MessageReadLimits kGatewayReads = {.calls = 256, .time = absl::Seconds(10)};
constexpr MessageReadLimits kStrangersReads = {.calls = 8, .time = absl::Milliseconds(250)};

void SetLimits(const grpc::ResourceQuota& memory, int max_streams, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(memory);
  // Otherwise gRPC lets a sender have megabytes in flight per call, read or not. This keeps it at 64 KiB until a call
  // reads.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // gRPC would decompress a message before it checks the size.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, max_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);                   // for silent connections
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);  // clients ping every 20 s
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);  // detects vanished clients
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
}

// Returns the options of a listener.
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
    grpc::EnableDefaultHealthCheckService(false);  // it reads messages from anyone
    MakeServices(context, std::move(control), std::move(admin_tokens));
    memory_.Resize(static_cast<size_t>(config.max_call_memory_bytes()));

    grpc::ServerBuilder builder;
    SetLimits(memory_, kMaxStreams, builder);
    public_listener_->AddTo(builder, credentials);
    for (const auto& service : {video_.get(), models_.get(), reflection_.get()}) builder.RegisterService(service);
    builder.RegisterService(health_.get());
    public_server_ = builder.BuildAndStart();
    if (public_server_ == nullptr) return absl::InternalError("address: gRPC failed to start the server");

    grpc::ServerBuilder admin_builder;
    SetLimits(memory_, kMaxStreams, admin_builder);
    const bool plain = absl::StartsWith(config.admin_address(), "unix:");
    admin_listener_->AddTo(admin_builder, plain ? grpc::InsecureServerCredentials() : credentials);
    admin_builder.RegisterService(admin_.get());
    admin_builder.RegisterService(admin_reflection_.get());
    admin_server_ = admin_builder.BuildAndStart();
    if (admin_server_ == nullptr) return absl::InternalError("admin_address: gRPC failed to start the server");
    KINORA_RETURN_IF_ERROR(ListenToGateway(config, context));
    SetAccepting(true);
    SetReady(false, {});
    public_listener_->Serve();
    admin_listener_->Serve();
    if (gateway_listener_ != nullptr) gateway_listener_->Serve();
    self_check_.emplace([this] { return public_listener_->CheckSelf(kSelfCheckPatience); }, Clock::Steady());
    return absl::OkStatus();
  }

  void SetAccepting(bool accepting) override { SetHealth("", accepting); }

  void SetReady(bool ready, const std::map<std::string, bool>& groups) override {
    SetHealth(kServing, ready);
    for (const auto& [id, serving] : groups) SetHealth(absl::StrCat("kinora.group.", id), serving);
  }

  void Shutdown(absl::Duration grace) override {
    const auto deadline = GrpcDeadline(grace);
    self_check_.reset();
    for (const auto* listener : {&public_listener_, &admin_listener_, &gateway_listener_}) {
      if (*listener != nullptr) (*listener)->Stop();
    }
    for (const auto* server : {&public_server_, &admin_server_, &gateway_server_}) {
      if (*server != nullptr) (*server)->Shutdown(deadline);
    }
    // The servers live until the destructor, because groups lost meanwhile still report their health.
  }

  absl::Status Live() const override { return self_check_ ? self_check_->Live() : absl::OkStatus(); }

  int port() const override { return public_listener_->port(); }

 private:
  void SetHealth(const std::string& service, bool serving) {
    health_->Set(service, serving);
    gateway_health_->Set(service, serving);
  }

  // Serves the public API to the frontend's own gateway, whose calls name their clients.
  absl::Status ListenToGateway(const v1::FrontendConfig& config, ServiceContext& context) {
    const std::string address = GatewaySocketOf(config);
    if (address.empty()) return absl::OkStatus();
    GrpcListenerOptions listening =
        Listening("gateway.sock", address, /*local_only=*/true, kMaxGatewayConnections, context.gauges);
    listening.max_calls = kMaxGatewayStreams;
    KINORA_ASSIGN_OR_RETURN(gateway_listener_, GrpcListener::Bind(std::move(listening)));
    grpc::ServerBuilder builder;
    SetLimits(memory_, kMaxGatewayStreams, builder);
    gateway_listener_->AddTo(builder, grpc::InsecureServerCredentials());
    for (const auto& service : {gateway_video_.get(), gateway_models_.get()}) builder.RegisterService(service);
    builder.RegisterService(gateway_health_.get());
    gateway_server_ = builder.BuildAndStart();
    return gateway_server_ != nullptr ? absl::OkStatus()
                                      : absl::InternalError("gateway.sock: gRPC failed to start the server");
  }

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
    CallAccess gateway = access;
    gateway.from_gateway = true;
    gateway.reads = &gateway_reads_;
    gateway_video_ = MakeVideoService(context, gateway);
    gateway_models_ = MakeModelsService(context, gateway);
    gateway.strangers = &strangers_reads_;
    gateway_health_ = std::make_unique<HealthService>(gateway);
    CallAccess admin_access = access;
    admin_access.tokens = &admin_tokens_;
    admin_ = MakeAdminService(std::move(control), admin_access);
    admin_reflection_ = MakeReflectionService({"kinora.v1.Admin"}, admin_access);
  }

  // The members that calls use, then the services, must outlive the servers. Network timeouts use the steady clock,
  // whatever clock the jobs use.
  MessageReads reads_{kReads, Clock::Steady()}, strangers_reads_{kStrangersReads, Clock::Steady()};
  MessageReads gateway_reads_{kGatewayReads, Clock::Steady()};
  std::unique_ptr<CallLog> log_;
  TokenSet admin_tokens_;
  std::unique_ptr<grpc::Service> video_, models_, reflection_, gateway_video_, gateway_models_, admin_,
      admin_reflection_;
  std::unique_ptr<HealthService> health_, gateway_health_;
  grpc::ResourceQuota memory_{"calls"};
  std::unique_ptr<grpc::Server> public_server_, admin_server_, gateway_server_;
  std::unique_ptr<GrpcListener> public_listener_, admin_listener_, gateway_listener_;  // the last may be null
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
