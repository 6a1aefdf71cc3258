#include "server/frontend/peers/peer_server.h"

#include <grpc/compression.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/grpc_deadline.h"
#include "server/common/metrics.h"
#include "server/config/config.h"
#include "server/frontend/api/call_log.h"
#include "server/net/grpc_credentials.h"
#include "server/net/grpc_listener.h"

namespace kinora {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;
constexpr int kMaxStreams = 128;
constexpr size_t kMaxMemoryBytes = size_t{64} << 20;
constexpr MessageReadLimits kReads = {.calls = 64, .time = absl::Seconds(10)};

void SetLimits(const grpc::ResourceQuota& memory, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(memory);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);                  // for silent connections
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);  // peers ping every 10 s
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
}

class RunningPeerServer : public PeerServer {
 public:
  RunningPeerServer(JobMetrics& metrics, TokenSet tokens) : log_(metrics), tokens_(std::move(tokens)) {}
  ~RunningPeerServer() override { RunningPeerServer::Shutdown(absl::ZeroDuration()); }

  absl::Status Listen(const v1::FrontendConfig& config, FrontendMetrics& gauges, PeerAnswers answers) {
    GrpcListenerOptions listening{.field = "peer_address", .address = config.peer_address()};
    listening.local_only = !PeersMayBeExposed(config);
    listening.max_connections = kMaxConnections;
    listening.max_calls = kMaxStreams;
    CountConnections(gauges, listening);
    KINORA_ASSIGN_OR_RETURN(listener_, GrpcListener::Bind(std::move(listening)));
    KINORA_ASSIGN_OR_RETURN(const auto credentials,
                            MakeServerCredentials(config.peer_tls(), "peer_tls", NoClientCertificate::kDoesNotConnect));
    service_ = MakePeerService(std::move(answers), {.tokens = &tokens_, .log = &log_, .reads = &reads_});
    memory_.Resize(kMaxMemoryBytes);
    grpc::ServerBuilder builder;
    SetLimits(memory_, builder);
    listener_->AddTo(builder, credentials);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("peer_address: gRPC failed to start the server");
    listener_->Serve();
    return absl::OkStatus();
  }

  void Shutdown(absl::Duration grace) override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) server_->Shutdown(GrpcDeadline(grace));
  }

 private:
  MessageReads reads_{kReads, Clock::Steady()};  // network timeouts, whatever clock the jobs use
  CallLog log_;
  const TokenSet tokens_;
  std::unique_ptr<grpc::Service> service_;
  grpc::ResourceQuota memory_{"peers"};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GrpcListener> listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Start(const v1::FrontendConfig& config, JobMetrics& metrics,
                                                              FrontendMetrics& gauges, PeerAnswers answers) {
  TokenSet tokens;
  if (!config.peer_token_file().empty()) {
    KINORA_ASSIGN_OR_RETURN(tokens, TokenSet::Load(config.peer_token_file()));
  }
  auto server = std::make_unique<RunningPeerServer>(metrics, std::move(tokens));
  KINORA_RETURN_IF_ERROR(server->Listen(config, gauges, std::move(answers)));
  return server;
}

}  // namespace kinora
