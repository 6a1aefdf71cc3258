#include "server/frontend/groups/join_service.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/grpc_listener.h"
#include "server/common/grpc_status.h"
#include "server/frontend/groups/dispatcher.h"

namespace kinora {
namespace {

constexpr int kMaxConnections = 256;  // one per rank, and a few that are about to go
constexpr int kMaxCalls = 4;          // of one connection

// One rank's stream. It owns itself from the call's begin to OnDone; the dispatcher shares it as a RankLink.
class JoinStream final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>,
                         public RankLink,
                         public std::enable_shared_from_this<JoinStream> {
 public:
  explicit JoinStream(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}

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
      dispatcher_.Join(incoming_.hello(), shared_from_this());
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
  std::shared_ptr<JoinStream> self_;
  v1::WorkerMessage incoming_;
  bool joined_ = false;  // of the reading thread, one at a time
  absl::Mutex mu_;
  std::deque<v1::FrontendMessage> outgoing_ ABSL_GUARDED_BY(mu_);  // the front one is being written
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

class JoinService final : public v1::WorkerControl::CallbackService {
 public:
  explicit JoinService(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>* Join(grpc::CallbackServerContext*) override {
    const auto stream = std::make_shared<JoinStream>(dispatcher_);
    stream->Begin();
    return stream.get();
  }

 private:
  Dispatcher& dispatcher_;
};

class RunningJoinServer final : public JoinServer {
 public:
  explicit RunningJoinServer(Dispatcher& dispatcher) : service_(dispatcher) {}
  ~RunningJoinServer() override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  absl::Status Listen(const std::string& address) {
    KINORA_ASSIGN_OR_RETURN(
        listener_,
        GrpcListener::Bind(
            {.field = "worker.sock", .address = address, .max_connections = kMaxConnections, .max_calls = kMaxCalls}));
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCalls);
    listener_->AddTo(builder, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("worker.sock: gRPC starts no server");
    listener_->Serve();
    return absl::OkStatus();
  }

 private:
  JoinService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GrpcListener> listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JoinServer>> JoinServer::Start(Dispatcher& dispatcher, const std::string& address) {
  if (!absl::StartsWith(address, "unix:")) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": workers join over a Unix socket, unix:PATH"));
  }
  auto server = std::make_unique<RunningJoinServer>(dispatcher);
  KINORA_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

}  // namespace kinora
