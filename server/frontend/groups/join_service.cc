#include "server/frontend/groups/join_service.h"

#include <grpc/compression.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/grpc_listener.h"
#include "server/common/grpc_status.h"
#include "server/common/log_limit.h"
#include "server/common/metrics.h"
#include "server/frontend/groups/dispatcher.h"

namespace kinora {
namespace {

constexpr int kMaxCalls = 4;  // of one connection

// One rank's stream. It owns itself from the call's begin to OnDone; the dispatcher shares it as a RankLink.
class JoinStream final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>,
                         public RankLink,
                         public std::enable_shared_from_this<JoinStream> {
 public:
  JoinStream(Dispatcher& dispatcher, Entrance entrance) : dispatcher_(dispatcher), entrance_(entrance) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void Send(v1::FrontendMessage message) override {
    absl::MutexLock lock(&mu_);
    if (closing_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  void Close(const absl::Status& status) override {
    absl::MutexLock lock(&mu_);
    if (closing_) return;
    closing_ = ToGrpcStatus(status);
    if (outgoing_.empty()) FinishOnce();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      dispatcher_.Disconnect(shared_from_this(), absl::OkStatus());
      return Close(absl::OkStatus());
    }
    if (!joined_) {
      if (!incoming_.has_hello()) return Close(absl::FailedPreconditionError("the first message must be a Hello"));
      joined_ = true;
      dispatcher_.Join(incoming_.hello(), shared_from_this(), entrance_);
    } else {
      dispatcher_.Receive(shared_from_this(), std::move(incoming_));
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();  // the stream has broken; OnReadDone says so to the dispatcher
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else if (closing_) {
      FinishOnce();
    }
  }

  void OnDone() override { self_.reset(); }

 private:
  void FinishOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_) return;
    finished_ = true;
    Finish(*closing_);
  }

  Dispatcher& dispatcher_;
  const Entrance entrance_;
  std::shared_ptr<JoinStream> self_;
  v1::WorkerMessage incoming_;
  bool joined_ = false;  // of the reading thread, one at a time
  absl::Mutex mu_;
  std::deque<v1::FrontendMessage> outgoing_ ABSL_GUARDED_BY(mu_);  // the front one is being written
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

// Who does not show what is asked for: the call ends at its headers.
class Refusal final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage> {
 public:
  explicit Refusal(const absl::Status& why) { Finish(ToGrpcStatus(why)); }
  void OnDone() override { delete this; }
};

class JoinService final : public v1::WorkerControl::CallbackService {
 public:
  // Both outlive this.
  JoinService(Dispatcher& dispatcher, FrontendMetrics& metrics, const JoinServerOptions& options)
      : dispatcher_(dispatcher), metrics_(metrics), options_(options) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>* Join(grpc::CallbackServerContext* call) override {
    const absl::Status known = Authenticate(*call);
    if (!known.ok()) {
      SayUnauthenticated(*call, known);
      return new Refusal(known);
    }
    const auto stream = std::make_shared<JoinStream>(dispatcher_, options_.entrance);
    stream->Begin();
    return stream.get();
  }

 private:
  absl::Status Authenticate(const grpc::CallbackServerContext& call) const {
    if (options_.wants_certificate && !call.auth_context()->IsPeerAuthenticated()) {
      return absl::UnauthenticatedError("certificate: show one that the frontend's join_tls.client_ca_file has signed");
    }
    if (!options_.check_token) return absl::OkStatus();
    const auto shown = call.client_metadata().find("authorization");
    const bool none = shown == call.client_metadata().end();
    return options_.check_token(none ? std::string_view()
                                     : std::string_view(shown->second.data(), shown->second.size()));
  }

  void SayUnauthenticated(const grpc::CallbackServerContext& call, const absl::Status& why) {
    metrics_.joins_unauthenticated_total.Increment();
    const auto not_logged = unauthenticated_.Admit();
    if (!not_logged.has_value()) return;
    Log(Severity::kWarning, "join_unauthenticated",
        {{"peer", call.peer()}, {"why", std::string(why.message())}, {"not_logged", *not_logged}});
  }

  Dispatcher& dispatcher_;
  FrontendMetrics& metrics_;
  const JoinServerOptions& options_;
  LogLimit unauthenticated_{absl::Seconds(1), Clock::Steady()};
};

// What a stranger may cost. Ranks that fall silent are the dispatcher's, who knows when this process was stopped
// itself.
void SetLimits(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCalls);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);  // a connection that says nothing
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);       // or has no call any more
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);  // workers ask each 10 s
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
}

class RunningJoinServer final : public JoinServer {
 public:
  RunningJoinServer(Dispatcher& dispatcher, FrontendMetrics& metrics, JoinServerOptions options)
      : options_(std::move(options)), metrics_(metrics), service_(dispatcher, metrics, options_) {}
  ~RunningJoinServer() override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  absl::Status Listen() {
    GrpcListenerOptions listening{.field = options_.field, .address = options_.address};
    listening.local_only = options_.local_only;
    listening.max_connections = JoinServer::kMaxConnections;
    listening.max_calls = kMaxCalls;
    if (options_.entrance == Entrance::kJoinPort) CountConnections(metrics_, listening);
    KINORA_ASSIGN_OR_RETURN(listener_, GrpcListener::Bind(std::move(listening)));
    grpc::ServerBuilder builder;
    SetLimits(builder);
    listener_->AddTo(builder,
                     options_.credentials != nullptr ? options_.credentials : grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError(absl::StrCat(options_.field, ": gRPC starts no server"));
    listener_->Serve();
    return absl::OkStatus();
  }

  int port() const override { return listener_->port(); }

 private:
  const JoinServerOptions options_;
  FrontendMetrics& metrics_;
  JoinService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GrpcListener> listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JoinServer>> JoinServer::Start(Dispatcher& dispatcher, FrontendMetrics& metrics,
                                                              JoinServerOptions options) {
  auto server = std::make_unique<RunningJoinServer>(dispatcher, metrics, std::move(options));
  KINORA_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace kinora
