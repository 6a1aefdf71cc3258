#include "server/worker/join_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/common/attended_time.h"
#include "server/common/grpc_deadline.h"
#include "server/common/timestamps.h"
#include "server/net/grpc_status.h"

namespace kinora {
namespace {

// Waits in short ticks, because gRPC may measure a wait by the wall clock and this process may be stopped during one.
bool AwaitConnection(grpc::Channel& channel, absl::Duration patience, Clock& steady) {
  const absl::Duration tick = std::min(absl::Milliseconds(200), patience);
  AttendedTime attended(steady, tick);
  const absl::Time end = attended.Now() + patience;
  do {
    if (channel.WaitForConnected(GrpcDeadline(tick))) return true;
  } while (attended.Now() < end);
  return false;
}

std::shared_ptr<grpc::Channel> Dial(const JoinTarget& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  if (!absl::StartsWith(target.address, "unix:")) {  // detects a host or network that has failed silently
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  }
  if (!target.certified_name.empty()) arguments.SetSslTargetNameOverride(target.certified_name);
  return grpc::CreateCustomChannel(
      target.address, target.credentials != nullptr ? target.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

}  // namespace

absl::StatusOr<std::unique_ptr<JoinClient>> JoinClient::Join(const JoinTarget& target, const v1::Hello& hello,
                                                             absl::Duration patience, Clock& steady) {
  const auto channel = Dial(target);
  if (!AwaitConnection(*channel, patience, steady)) {
    return absl::UnavailableError(absl::StrCat("frontend: nothing listens at ", target.address,
                                               target.credentials == nullptr ? "" : ", or the TLS handshake failed"));
  }
  auto client = std::unique_ptr<JoinClient>(new JoinClient(steady));
  if (!target.token.empty()) client->context_.AddMetadata("authorization", absl::StrCat("Bearer ", target.token));
  client->stub_ = v1::WorkerControl::NewStub(channel);
  client->stream_ = client->stub_->Join(&client->context_);
  v1::WorkerMessage message;
  *message.mutable_hello() = hello;
  v1::FrontendMessage answer;
  const bool answered = client->stream_->Write(message) && client->stream_->Read(&answer);
  if (!answered || !answer.has_welcome()) {
    if (answered) client->context_.TryCancel();  // after the stream's end this would hide the frontend's status
    const grpc::Status status = client->stream_->Finish();
    {
      absl::MutexLock lock(&client->mu_);
      client->ended_ = true;
    }
    return status.ok() ? absl::UnavailableError("the frontend closed the stream without a Welcome message")
                       : FromGrpcStatus(status);
  }
  client->welcome_ = answer.welcome();
  return client;
}

void JoinClient::Start(std::function<v1::Heartbeat()> heartbeat,
                       std::function<void(const v1::FrontendMessage&)> on_message,
                       std::function<void(const absl::Status&)> on_end) {
  reader_ =
      std::thread([this, on_message = std::move(on_message), on_end = std::move(on_end)] { Read(on_message, on_end); });
  beater_ = std::thread([this, heartbeat = std::move(heartbeat)] { Beat(heartbeat); });
}

void JoinClient::End() {
  context_.TryCancel();
  if (reader_.joinable()) reader_.join();
  if (beater_.joinable()) beater_.join();
  absl::MutexLock lock(&mu_);
  if (!ended_ && stream_ != nullptr) stream_->Finish();  // Start was never called
  ended_ = true;
}

void JoinClient::Send(const v1::WorkerMessage& message) {
  absl::MutexLock write_lock(&write_mu_);
  {
    absl::MutexLock lock(&mu_);
    if (ended_) return;
  }
  stream_->Write(message);  // false: the stream broke, which ends Read too
}

void JoinClient::Read(const std::function<void(const v1::FrontendMessage&)>& on_message,
                      const std::function<void(const absl::Status&)>& on_end) {
  v1::FrontendMessage message;
  while (stream_->Read(&message)) on_message(message);
  {
    absl::MutexLock write_lock(&write_mu_);  // waits for a write in progress, which fails because the stream has ended
    absl::MutexLock lock(&mu_);
    ended_ = true;
  }
  const grpc::Status status = stream_->Finish();
  on_end(FromGrpcStatus(status));
}

void JoinClient::Beat(const std::function<v1::Heartbeat()>& heartbeat) {
  const absl::Duration interval = FromProto(welcome_.heartbeat_interval());
  absl::MutexLock lock(&mu_);
  while (!steady_.AwaitUntil(mu_, absl::Condition(&ended_), steady_.Now() + interval)) {
    mu_.Unlock();
    v1::WorkerMessage message;
    *message.mutable_heartbeat() = heartbeat();
    Send(message);
    mu_.Lock();
  }
}

}  // namespace kinora
