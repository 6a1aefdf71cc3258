#include <grpcpp/support/server_callback.h>

#include <utility>

#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/grpc_status.h"
#include "server/common/status_details.h"
#include "server/frontend/api/call_metadata.h"
#include "server/frontend/api/message_check.h"
#include "server/frontend/api/parsed_request.h"
#include "server/frontend/api/video_service.h"

namespace kinora {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

using grpc::internal::CallbackUnaryHandler;
using Nothing = ParsedRequest<google::protobuf::Empty>;

int MethodIndex(const char* service, const char* method) {
  return v1::WorkerGroupRequest::descriptor()->file()->FindServiceByName(service)->FindMethodByName(method)->index();
}

template <typename Message>
absl::Status CheckCall(const TokenSet& tokens, const CallbackServerContext& call,
                       const ParsedRequest<Message>& request) {
  if (auto status = tokens.Check(Authorization(call)); !status.ok()) return status;
  if (!request.status.ok()) return request.status;
  const auto violations = CheckMessage(request.message);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

class ModelsService : public v1::Models::CallbackService {
 public:
  explicit ModelsService(ServiceContext& context) : context_(context) {
    MarkMethodCallback(MethodIndex("Models", "ListModels"),
                       new CallbackUnaryHandler<Nothing, v1::ListModelsResponse>(
                           [this](auto* call, const Nothing* request, v1::ListModelsResponse* reply) {
                             return List(call, *request, reply);
                           }));
  }

 private:
  ServerUnaryReactor* List(CallbackServerContext* call, const Nothing& request, v1::ListModelsResponse* reply) {
    auto* reactor = call->DefaultReactor();
    if (const auto status = CheckCall(context_.tokens, *call, request); !status.ok()) {
      reactor->Finish(ToGrpcStatus(status));
      return reactor;
    }
    context_.store.Models([reactor, reply](absl::StatusOr<std::vector<v1::ModelInfo>> models) {
      if (models.ok()) reply->mutable_models()->Assign(models->begin(), models->end());
      reactor->Finish(ToGrpcStatus(models.status()));
    });
    return reactor;
  }

  ServiceContext& context_;
};

class AdminService : public v1::Admin::CallbackService {
 public:
  AdminService(GroupControl control, TokenSet tokens) : control_(std::move(control)), tokens_(std::move(tokens)) {
    MarkMethodCallback(MethodIndex("Admin", "ListWorkerGroups"),
                       new CallbackUnaryHandler<Nothing, v1::ListWorkerGroupsResponse>(
                           [this](auto* call, const Nothing* request, v1::ListWorkerGroupsResponse* reply) {
                             return List(call, *request, reply);
                           }));
    Mark("DrainWorkerGroup", control_.drain);
    Mark("RestartWorkerGroup", control_.restart);
  }

 private:
  using Method = std::function<void(const std::string& id, Done<v1::WorkerGroup>)>;
  using Request = ParsedRequest<v1::WorkerGroupRequest>;

  void Mark(const char* name, const Method& method) {
    MarkMethodCallback(MethodIndex("Admin", name),
                       new CallbackUnaryHandler<Request, v1::WorkerGroup>(
                           [this, method](auto* call, const Request* request, v1::WorkerGroup* reply) {
                             return Change(method, call, *request, reply);
                           }));
  }

  ServerUnaryReactor* List(CallbackServerContext* call, const Nothing& request, v1::ListWorkerGroupsResponse* reply) {
    auto* reactor = call->DefaultReactor();
    if (const auto status = CheckCall(tokens_, *call, request); !status.ok()) {
      reactor->Finish(ToGrpcStatus(status));
      return reactor;
    }
    control_.list([reactor, reply](absl::StatusOr<std::vector<v1::WorkerGroup>> groups) {
      if (groups.ok()) reply->mutable_groups()->Assign(groups->begin(), groups->end());
      reactor->Finish(ToGrpcStatus(groups.status()));
    });
    return reactor;
  }

  ServerUnaryReactor* Change(const Method& method, CallbackServerContext* call, const Request& request,
                             v1::WorkerGroup* reply) {
    auto* reactor = call->DefaultReactor();
    if (const auto status = CheckCall(tokens_, *call, request); !status.ok()) {
      reactor->Finish(ToGrpcStatus(status));
      return reactor;
    }
    method(request.message.id(), [reactor, reply](absl::StatusOr<v1::WorkerGroup> group) {
      if (group.ok()) *reply = std::move(*group);
      reactor->Finish(ToGrpcStatus(group.status()));
    });
    return reactor;
  }

  const GroupControl control_;
  const TokenSet tokens_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeModelsService(ServiceContext& context) {
  return std::make_unique<ModelsService>(context);
}

std::unique_ptr<grpc::Service> MakeAdminService(GroupControl control, TokenSet tokens) {
  return std::make_unique<AdminService>(std::move(control), std::move(tokens));
}

}  // namespace kinora
