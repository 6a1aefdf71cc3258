#include "server/net/grpc_listener.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/grpc_deadline.h"

namespace kinora {
namespace {

// A peer that acknowledges no data for this long is considered gone.
constexpr unsigned kUnacknowledgedMilliseconds = 20'000;

void HandOver(grpc::experimental::ExternalConnectionAcceptor& server, int fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = fd;
  server.HandleNewConnection(&parameters);
}

}  // namespace

void CountConnections(FrontendMetrics& metrics, GrpcListenerOptions& options) {
  std::map<ConnectionAcceptor::RejectReason, prometheus::Counter*> refused;
  for (const ConnectionAcceptor::RejectReason why : ConnectionAcceptor::kRejectReasons) {
    refused[why] =
        &metrics.connections_refused_total.Add({{"field", options.field}, {"reason", RejectReasonName(why)}});
  }
  options.refused = [refused](ConnectionAcceptor::RejectReason why) { refused.at(why)->Increment(); };
  options.count = [gauge = &metrics.connections.Add({{"field", options.field}})](int open) { gauge->Set(open); };
}

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Bind(GrpcListenerOptions options) {
  std::unique_ptr<GrpcListener> listener(new GrpcListener(options.max_calls));
  ConnectionAcceptor::Options accept;
  accept.field = std::move(options.field);
  accept.address = std::move(options.address);
  accept.local_only = options.local_only;
  accept.max_connections = options.max_connections;
  accept.take = [self = listener.get()](const ConnectionAcceptor::Connection& connection) {
    if (!connection.peer.is_unix()) {
      (void)setsockopt(connection.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMilliseconds,
                       sizeof(kUnacknowledgedMilliseconds));
    }
    HandOver(connection.own ? *self->own_ : *self->clients_, connection.fd);
  };
  accept.overdone = [self = listener.get()](const ConnectionAcceptor::Connection& connection) {
    const bool cut = self->flood_.Overdone(connection);
    self->memory_to_give_back_ |= cut;
    return cut;
  };
  accept.closed = [self = listener.get()](uint64_t connection) {
    self->flood_.Forget(connection);
    // The memory of its calls is free by now, but the allocator would keep it.
    if (std::exchange(self->memory_to_give_back_, false)) malloc_trim(0);
  };
  accept.refused = std::move(options.refused);
  accept.count = std::move(options.count);
  KINORA_ASSIGN_OR_RETURN(listener->acceptor_, ConnectionAcceptor::Bind(std::move(accept)));
  return listener;
}

void GrpcListener::AddTo(grpc::ServerBuilder& builder, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  using Builder = grpc::ServerBuilder::experimental_type;
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);  // CallFlood reads its counts
  clients_ =
      builder.experimental().AddExternalConnectionAcceptor(Builder::ExternalConnectionType::FROM_FD, credentials);
  own_ = builder.experimental().AddExternalConnectionAcceptor(Builder::ExternalConnectionType::FROM_FD,
                                                              grpc::InsecureServerCredentials());
}

void GrpcListener::Serve() { acceptor_->Start(); }

void GrpcListener::Stop() {
  if (acceptor_ != nullptr) acceptor_->Stop();
}

absl::Status GrpcListener::CheckSelf(absl::Duration patience) {
  const auto deadline = GrpcDeadline(patience);
  KINORA_ASSIGN_OR_RETURN(FileDescriptor connection, acceptor_->ConnectToSelf(patience));
  grpc::GenericStub stub(grpc::CreateInsecureChannelFromFd("self", connection.Release()));
  grpc::ClientContext context;
  context.set_deadline(deadline);
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer nothing(nullptr, 0);  // a HealthCheckRequest for ""
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", nothing, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  const bool answered = status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
                        status.error_code() != grpc::StatusCode::UNAVAILABLE &&
                        status.error_code() != grpc::StatusCode::CANCELLED;
  if (answered) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server does not answer its own health check: ", status.error_message()));
}

}  // namespace kinora
