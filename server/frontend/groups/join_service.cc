#include "server/frontend/groups/join_service.h"

#include <grpc/compression.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/build_version.h"
#include "server/common/grpc_deadline.h"
#include "server/common/log_limit.h"
#include "server/common/metrics.h"
#include "server/frontend/groups/dispatcher.h"
#include "server/frontend/groups/group_homes.h"
#include "server/net/event_loop.h"
#include "server/net/grpc_listener.h"
#include "server/net/grpc_status.h"

namespace kinora {
namespace {

constexpr int kMaxCalls = 4;                           // per connection
constexpr int kMaxMessageBytes = 2 << 20;              // a piece of an artifact has 1 MiB
constexpr size_t kMaxMemoryBytes = size_t{256} << 20;  // for all messages in flight

// One rank's stream. It owns itself until OnDone; the dispatcher shares it as a RankLink.
class JoinStream final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>,
                         public RankLink,
                         public std::enable_shared_from_this<JoinStream> {
 public:
  JoinStream(Dispatcher& dispatcher, GroupHomes* homes, Entrance entrance)
      : dispatcher_(dispatcher), homes_(homes), entrance_(entrance) {}

  void Begin() {
    self_ = shared_from_this();
    StartSendInitialMetadata();  // tells the worker that it was accepted
    StartRead(&incoming_);
  }

  // Ends the call unless a message has arrived.
  void GiveUpHello() {
    if (!hello_over_.exchange(true)) {
      Close(absl::DeadlineExceededError(
          absl::StrCat("no Hello message arrived within ", absl::FormatDuration(JoinServer::kHelloTime))));
    }
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
    v1::WorkerMessage message;
    message.Swap(&incoming_);  // ReadOn may run before this returns
    if (joined_) return dispatcher_.Receive(shared_from_this(), std::move(message));
    if (hello_over_.exchange(true)) return;  // timed out
    if (!message.has_hello()) return Close(absl::FailedPreconditionError("the first message must be a Hello"));
    joined_ = true;
    // The dispatcher rejects a worker of another version, which may not know what a redirect is.
    const bool is_known = message.hello().protocol() == ThisBuild().protocol;
    if (homes_ == nullptr || !is_known) return dispatcher_.Join(message.hello(), shared_from_this(), entrance_);
    homes_->Find(message.hello().group(),
                 [self = shared_from_this(), hello = message.hello()](const absl::StatusOr<std::string>& elsewhere) {
                   self->OnHome(hello, elsewhere);
                 });
  }

  void ReadOn() override {
    absl::MutexLock lock(&mu_);
    if (!closing_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();  // the stream is broken; OnReadDone notifies the dispatcher
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

  void OnHome(const v1::Hello& hello, const absl::StatusOr<std::string>& elsewhere) {
    if (!elsewhere.ok()) return Close(elsewhere.status());
    if (elsewhere->empty()) return dispatcher_.Join(hello, shared_from_this(), entrance_);
    Log(Severity::kInfo, "worker_redirected", {{"group", hello.group()}, {"rank", hello.rank()}, {"to", *elsewhere}});
    v1::FrontendMessage message;
    message.mutable_welcome()->mutable_redirect()->set_address(*elsewhere);
    Send(std::move(message));
    Close(absl::OkStatus());
  }

  Dispatcher& dispatcher_;
  GroupHomes* const homes_;  // may be null
  const Entrance entrance_;
  std::shared_ptr<JoinStream> self_;
  v1::WorkerMessage incoming_;
  bool joined_ = false;                   // used only in OnReadDone
  std::atomic<bool> hello_over_ = false;  // the first message has arrived or timed out
  absl::Mutex mu_;
  std::deque<v1::FrontendMessage> outgoing_ ABSL_GUARDED_BY(mu_);  // the first is being written
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

// Ends a call without valid credentials at its headers.
class RejectedJoin final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage> {
 public:
  explicit RejectedJoin(const absl::Status& why) { Finish(ToGrpcStatus(why)); }
  void OnDone() override { delete this; }
};

class JoinService final : public v1::WorkerControl::CallbackService {
 public:
  // The arguments must outlive the service.
  JoinService(Dispatcher& dispatcher, FrontendMetrics& metrics, const JoinServerOptions& options)
      : dispatcher_(dispatcher),
        metrics_(metrics),
        options_(options),
        unauthenticated_(absl::Seconds(1), *options.steady),
        loop_(*options.steady) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>* Join(grpc::CallbackServerContext* call) override {
    const absl::Status known = Authenticate(*call);
    if (!known.ok()) {
      SayUnauthenticated(*call, known);
      return new RejectedJoin(known);
    }
    const auto stream = std::make_shared<JoinStream>(dispatcher_, options_.homes, options_.entrance);
    loop_.PostAt(loop_.Now() + JoinServer::kHelloTime, [weak = std::weak_ptr(stream)] {
      if (const auto silent = weak.lock()) silent->GiveUpHello();
    });
    stream->Begin();
    return stream.get();
  }

 private:
  absl::Status Authenticate(const grpc::CallbackServerContext& call) const {
    if (options_.wants_certificate && !call.auth_context()->IsPeerAuthenticated()) {
      return absl::UnauthenticatedError(
          "certificate: must be signed by an authority in the frontend's join_tls.client_ca_file");
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
  LogLimit unauthenticated_;
  EventLoop loop_;
};

// Limits for strangers. The dispatcher handles silent ranks, because it knows when this process was stopped itself.
void SetLimits(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCalls);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);  // for silent connections
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 10'000);       // for connections without a call
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);  // workers ping every 10 s
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  grpc::ResourceQuota memory("joins");
  memory.Resize(kMaxMemoryBytes);
  builder.SetResourceQuota(memory);
}

class RunningJoinServer final : public JoinServer {
 public:
  RunningJoinServer(Dispatcher& dispatcher, FrontendMetrics& metrics, JoinServerOptions options)
      : options_(std::move(options)), metrics_(metrics), service_(dispatcher, metrics, options_) {}
  ~RunningJoinServer() override { RunningJoinServer::Shutdown(absl::ZeroDuration()); }

  void Shutdown(absl::Duration grace) override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) server_->Shutdown(GrpcDeadline(grace));
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
    if (server_ == nullptr)
      return absl::InternalError(absl::StrCat(options_.field, ": gRPC failed to start the server"));
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
