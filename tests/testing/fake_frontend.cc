#include "tests/testing/fake_frontend.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/timestamps.h"
#include "server/net/grpc_status.h"

namespace kinora {

class FakeFrontend::Service : public v1::WorkerControl::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::FrontendMessage, v1::WorkerMessage>;

  Service(Inbox& inbox, absl::Duration heartbeat_interval, absl::Status refusal)
      : inbox_(inbox), heartbeat_interval_(heartbeat_interval), refusal_(std::move(refusal)) {}

  grpc::Status Join(grpc::ServerContext* context, Stream* stream) override {
    v1::WorkerMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    Keep(message);
    if (!refusal_.ok()) return ToGrpcStatus(refusal_);
    v1::FrontendMessage welcome;
    *welcome.mutable_welcome()->mutable_heartbeat_interval() = ToProto(heartbeat_interval_);
    {
      absl::MutexLock lock(&mu_);  // once the worker is welcomed, Send and Break work
      stream->Write(welcome);
      context_ = context;
      stream_ = stream;
    }
    while (stream->Read(&message)) Keep(message);
    absl::MutexLock lock(&mu_);
    context_ = nullptr;
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  void Send(const v1::FrontendMessage& message) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &Service::Joined));
    stream_->Write(message);
  }
  void Break() {
    absl::MutexLock lock(&mu_);
    if (context_ != nullptr) context_->TryCancel();
  }

 private:
  bool Joined() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stream_ != nullptr; }
  void Keep(const v1::WorkerMessage& message) {
    absl::MutexLock lock(&inbox_.mu);
    (message.has_heartbeat() ? inbox_.heartbeats : inbox_.others).push_back(message);
  }

  Inbox& inbox_;
  const absl::Duration heartbeat_interval_;
  const absl::Status refusal_;
  absl::Mutex mu_;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
};

struct FakeFrontend::Server {
  std::unique_ptr<grpc::Server> server;
};

FakeFrontend::FakeFrontend(absl::Duration heartbeat_interval, absl::Status refusal)
    : address_(absl::StrCat("unix:", directory_.File("worker.sock"))),
      service_(std::make_unique<Service>(inbox_, heartbeat_interval, std::move(refusal))),
      server_(std::make_unique<Server>()) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_->server = builder.BuildAndStart();
  KINORA_CHECK(server_->server != nullptr) << address_;
}

FakeFrontend::~FakeFrontend() {
  Break();
  server_->server->Shutdown(std::chrono::system_clock::now());
}

v1::WorkerMessage FakeFrontend::Take(bool heartbeats) {
  const auto there = [&] {
    inbox_.mu.AssertHeld();
    return !(heartbeats ? inbox_.heartbeats : inbox_.others).empty();
  };
  absl::MutexLock lock(&inbox_.mu);
  KINORA_CHECK(inbox_.mu.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(30))) << "no message came";
  std::deque<v1::WorkerMessage>& from = heartbeats ? inbox_.heartbeats : inbox_.others;
  v1::WorkerMessage message = std::move(from.front());
  from.pop_front();
  return message;
}

void FakeFrontend::Send(const v1::FrontendMessage& message) { service_->Send(message); }
void FakeFrontend::Break() { service_->Break(); }

}  // namespace kinora
