// A gRPC service whose methods run on ServerCalls. A call checks the token in the headers, reads one message, parses it
// with ParseMessage and runs the handler. Bad bytes and bad text fail with INVALID_ARGUMENT and the field; gRPC itself
// would answer UNIMPLEMENTED to bytes that its generated code cannot parse.
#ifndef KINORA_SERVER_FRONTEND_API_METHOD_SERVICE_H_
#define KINORA_SERVER_FRONTEND_API_METHOD_SERVICE_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/service_type.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/frontend/api/message_check.h"
#include "server/frontend/api/reply_stream.h"
#include "server/frontend/api/request_stream.h"
#include "server/frontend/api/server_call.h"

namespace kinora {

// Answers a unary call, once, from any thread. Copies answer the same call.
template <typename Reply>
class UnaryReply {
 public:
  explicit UnaryReply(ServerCall& call) : call_(&call) {}
  void operator()(const absl::StatusOr<Reply>& reply) const {
    if (!reply.ok()) return call_->Finish(reply.status());
    call_->WriteAndFinish(ToByteBuffer(*reply));
  }
  void AddMetadata(const char* key, const char* value) const { call_->context().AddInitialMetadata(key, value); }

 private:
  ServerCall* call_;  // alive until answered
};

class MethodService : public grpc::Service {
 protected:
  MethodService(const google::protobuf::ServiceDescriptor* service, const CallAccess& access)
      : service_(service), access_(access) {}

  template <typename Request, typename Reply, typename Service>
  void Unary(const char* name, void (Service::*handler)(const Request&, UnaryReply<Reply>)) {
    Add(name, [this, handler](ServerCall& call, std::optional<std::string_view> bytes) {
      Request request;
      if (const absl::Status status = Parse(bytes, request); !status.ok()) return call.Finish(status);
      (static_cast<Service*>(this)->*handler)(request, UnaryReply<Reply>(call));
    });
  }
  // The handler creates and returns a stream, which owns itself.
  template <typename Request, typename Reply, typename Service>
  void Streaming(const char* name,
                 ReplyStream<Reply>* (Service::*handler)(grpc::CallbackServerContext&, const Request&)) {
    Add(name, [this, handler](ServerCall& call, std::optional<std::string_view> bytes) {
      Request request;
      if (const absl::Status status = Parse(bytes, request); !status.ok()) return call.Finish(status);
      call.Attach((static_cast<Service*>(this)->*handler)(call.context(), request));
    });
  }
  // The handler creates a stream at the call's first message. The stream owns itself and receives that message and all
  // later ones.
  template <typename Request, typename Reply, typename Service>
  void ClientStreaming(const char* name,
                       RequestStream<Request, Reply>* (Service::*handler)(grpc::CallbackServerContext&)) {
    Add(name, [this, handler](ServerCall& call, std::optional<std::string_view> bytes) {
      auto* stream = static_cast<RequestStream<Request, Reply>*>(call.stream());
      if (stream != nullptr && !bytes.has_value()) return stream->OnRequestsEnd();
      Request request;
      if (const absl::Status status = Parse(bytes, request); !status.ok()) return call.Finish(status);
      if (stream == nullptr) {
        stream = (static_cast<Service*>(this)->*handler)(call.context());
        call.StartSendInitialMetadata();  // tells the client that its first message is read
        call.Attach(stream);
      }
      stream->OnRequest(std::move(request));
    });
  }
  void Add(const char* name, ServerCall::OnMessage on_message);

  // Called for an invalid request before its call is answered.
  virtual void OnBadRequest(const google::protobuf::Message&, const absl::Status&) {}

 private:
  absl::Status Parse(std::optional<std::string_view> bytes, google::protobuf::Message& request);

  struct Method {
    std::string path;
    ServerCall::OnMessage on_message;
  };
  const google::protobuf::ServiceDescriptor* const service_;
  const CallAccess access_;
  std::deque<Method> methods_;  // a deque: addresses are stable
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_METHOD_SERVICE_H_
