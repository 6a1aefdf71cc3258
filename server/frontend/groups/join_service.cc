#include "server/frontend/groups/join_service.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/grpc_status.h"
#include "server/frontend/groups/dispatcher.h"

namespace kinora {
namespace {

constexpr size_t kLongestSocketPath = 107;  // sockaddr_un::sun_path less its terminator

// One rank's stream. It owns itself from the call's begin to OnDone; the dispatcher shares it as a RankLink.
class JoinStream final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>,
                         public RankLink,
                         public std::enable_shared_from_this<JoinStream> {
 public:
  JoinStream(Dispatcher& dispatcher, const std::string& build) : dispatcher_(dispatcher), build_(build) {}

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
      if (incoming_.hello().build() != build_) {
        return Close(absl::FailedPreconditionError(
            absl::StrCat("this frontend is of build ", build_, ", the worker of build ", incoming_.hello().build())));
      }
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
  const std::string& build_;
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
  JoinService(Dispatcher& dispatcher, std::string build) : dispatcher_(dispatcher), build_(std::move(build)) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::FrontendMessage>* Join(grpc::CallbackServerContext*) override {
    const auto stream = std::make_shared<JoinStream>(dispatcher_, build_);
    stream->Begin();
    return stream.get();
  }

 private:
  Dispatcher& dispatcher_;
  const std::string build_;
};

class RunningJoinServer final : public JoinServer {
 public:
  RunningJoinServer(Dispatcher& dispatcher, const std::string& build) : service_(dispatcher, build) {}
  ~RunningJoinServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  bool Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    return server_ != nullptr && port != 0;
  }

 private:
  JoinService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JoinServer>> JoinServer::Start(Dispatcher& dispatcher, const std::string& address,
                                                              const std::string& build) {
  if (!absl::StartsWith(address, "unix:")) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": workers join over a Unix socket, unix:PATH"));
  }
  const std::string path = address.substr(5);
  if (path.size() > kLongestSocketPath) {
    return absl::InvalidArgumentError(absl::StrCat("state_directory: ", path, " is longer than the ",
                                                   kLongestSocketPath, " bytes of a Unix socket's name"));
  }
  auto server = std::make_unique<RunningJoinServer>(dispatcher, build);
  if (!server->Listen(address)) {
    return absl::UnavailableError(absl::StrCat(address, ": cannot listen for workers there"));
  }
  if (chmod(path.c_str(), 0600) != 0) return absl::UnavailableError(absl::StrCat(path, ": cannot set mode 0600"));
  return server;
}

}  // namespace kinora
