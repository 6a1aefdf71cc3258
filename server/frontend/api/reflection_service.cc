#include "server/frontend/api/reflection_service.h"

#include <google/protobuf/descriptor.pb.h>

#include <functional>
#include <set>
#include <utility>

#include "grpc/reflection/v1alpha/reflection.pb.h"

namespace kinora {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

void AddFiles(const FileDescriptor* file, std::set<const FileDescriptor*>& seen, ServerReflectionResponse& reply) {
  if (!seen.insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  reply.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFiles(file->dependency(i), seen, reply);
}

void SetError(absl::StatusCode code, const char* message, ServerReflectionResponse& reply) {
  reply.mutable_error_response()->set_error_code(static_cast<int>(code));
  reply.mutable_error_response()->set_error_message(message);
}

void SetFile(const FileDescriptor* file, ServerReflectionResponse& reply) {
  std::set<const FileDescriptor*> seen;
  file == nullptr ? SetError(absl::StatusCode::kNotFound, "no such file, symbol or extension", reply)
                  : AddFiles(file, seen, reply);
}

ServerReflectionResponse Answer(const ServerReflectionRequest& request, const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse reply;
  reply.set_valid_host(request.host());
  *reply.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), reply);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()), reply);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) {
        reply.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::kFileContainingExtension:
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetError(absl::StatusCode::kNotFound, "these services are of proto3 and have no extensions", reply);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::StatusCode::kUnimplemented, "not a request that this server supports", reply);
      break;
  }
  return reply;
}

// One stream: a reply for each message, until the client sends no more. Owned by its call.
class Conversation : public ByteStream {
 public:
  Conversation(ServerCall& call, std::function<ServerReflectionResponse(const ServerReflectionRequest&)> answer)
      : call_(call), answer_(std::move(answer)) {}
  void OnMessage(std::string_view bytes) {
    ServerReflectionRequest request;
    if (const absl::Status status = ParseMessage(bytes, request); !status.ok()) return Finish(status);
    StartWriteBytes(ToByteBuffer(answer_(request)));
  }
  void OnEnd() { Finish(absl::OkStatus()); }

  void OnWriteDone(bool ok) override {
    ok ? call_.ReadNext() : Finish(absl::CancelledError("the client disconnected"));
  }
  void OnCancel() override {}  // the pending read or write fails
  void OnDone() override { delete this; }

 private:
  ServerCall& call_;
  const std::function<ServerReflectionResponse(const ServerReflectionRequest&)> answer_;
};

class ReflectionService : public MethodService {
 public:
  ReflectionService(std::vector<std::string> services, const CallAccess& access)
      : MethodService(ServerReflectionRequest::descriptor()->file()->FindServiceByName("ServerReflection"), access),
        services_(std::move(services)) {
    Add("ServerReflectionInfo", [this](ServerCall& call, std::optional<std::string_view> bytes) {
      auto* conversation = static_cast<Conversation*>(call.stream());
      if (!bytes.has_value()) return conversation == nullptr ? call.Finish(absl::OkStatus()) : conversation->OnEnd();
      if (conversation == nullptr) {
        conversation = new Conversation(
            call, [this](const ServerReflectionRequest& request) { return Answer(request, services_); });
        call.Attach(conversation);
      }
      conversation->OnMessage(*bytes);
    });
  }

 private:
  const std::vector<std::string> services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeReflectionService(std::vector<std::string> services, const CallAccess& access) {
  return std::make_unique<ReflectionService>(std::move(services), access);
}

}  // namespace kinora
