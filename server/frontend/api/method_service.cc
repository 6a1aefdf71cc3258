#include "server/frontend/api/method_service.h"

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/server_callback.h>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/common/status_details.h"

namespace kinora {

void MethodService::Add(const char* name, ServerCall::OnMessage on_message) {
  KINORA_CHECK(service_->FindMethodByName(name) != nullptr) << name;
  const Method& method = methods_.emplace_back(
      Method{.path = absl::StrCat("/", service_->full_name(), "/", name), .on_message = std::move(on_message)});
  // Registers the method as generated code does, but as bidirectional streams of bytes, whatever the descriptor says:
  // for any other kind gRPC reads the first message before it calls the handler.
  using Handler = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  AddMethod(new grpc::internal::RpcServiceMethod(method.path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING,
                                                 /*handler=*/nullptr));
  MarkMethodCallback(static_cast<int>(methods_.size()) - 1,
                     new Handler([this, &method](grpc::CallbackServerContext* context) {
                       return ServerCall::Start(context, method.path, access_, method.on_message);
                     }));
}

absl::Status MethodService::Parse(std::optional<std::string_view> bytes, google::protobuf::Message& request) {
  absl::Status status = bytes.has_value()
                            ? ParseMessage(*bytes, request)
                            : absl::InvalidArgumentError(absl::StrCat("the call ended before a message of type ",
                                                                      request.GetDescriptor()->name()));
  if (status.ok()) {
    const auto violations = CheckMessage(request);
    if (violations.empty()) return absl::OkStatus();
    status = InvalidFields(violations);
  }
  OnBadRequest(request, status);
  return status;
}

}  // namespace kinora
