#include <grpcpp/support/server_callback.h>

#include <utility>

#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/grpc_status.h"
#include "server/common/status_details.h"
#include "server/frontend/call_metadata.h"
#include "server/frontend/message_check.h"
#include "server/frontend/parsed_request.h"
#include "server/frontend/video_service.h"

namespace kinora {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class ModelsService : public v1::Models::CallbackService {
 public:
  explicit ModelsService(ServiceContext& context) : context_(context) {}

  ServerUnaryReactor* ListModels(CallbackServerContext* call, const google::protobuf::Empty*,
                                 v1::ListModelsResponse* reply) override {
    auto* reactor = call->DefaultReactor();
    if (const auto status = context_.tokens.Check(Authorization(*call)); !status.ok()) {
      reactor->Finish(ToGrpcStatus(status));
      return reactor;
    }
    context_.store.Models([reactor, reply](absl::StatusOr<std::vector<v1::ModelInfo>> models) {
      if (models.ok()) reply->mutable_models()->Assign(models->begin(), models->end());
      reactor->Finish(ToGrpcStatus(models.status()));
    });
    return reactor;
  }

 private:
  ServiceContext& context_;
};

class AdminService : public v1::Admin::CallbackService {
 public:
  AdminService(GroupControl control, TokenSet tokens) : control_(std::move(control)), tokens_(std::move(tokens)) {
    Mark("DrainWorkerGroup", control_.drain);
    Mark("RestartWorkerGroup", control_.restart);
  }

  ServerUnaryReactor* ListWorkerGroups(CallbackServerContext* call, const google::protobuf::Empty*,
                                       v1::ListWorkerGroupsResponse* reply) override {
    auto* reactor = call->DefaultReactor();
    if (const auto status = tokens_.Check(Authorization(*call)); !status.ok()) {
      reactor->Finish(ToGrpcStatus(status));
      return reactor;
    }
    control_.list([reactor, reply](absl::StatusOr<std::vector<v1::WorkerGroup>> groups) {
      if (groups.ok()) reply->mutable_groups()->Assign(groups->begin(), groups->end());
      reactor->Finish(ToGrpcStatus(groups.status()));
    });
    return reactor;
  }

 private:
  using Method = std::function<void(const std::string& id, Done<v1::WorkerGroup>)>;
  using Request = ParsedRequest<v1::WorkerGroupRequest>;

  void Mark(const char* name, const Method& method) {
    const auto* service = v1::WorkerGroupRequest::descriptor()->file()->FindServiceByName("Admin");
    MarkMethodCallback(service->FindMethodByName(name)->index(),
                       new grpc::internal::CallbackUnaryHandler<Request, v1::WorkerGroup>(
                           [this, method](auto* call, const Request* request, v1::WorkerGroup* reply) {
                             return Change(method, call, *request, reply);
                           }));
  }

  ServerUnaryReactor* Change(const Method& method, CallbackServerContext* call, const Request& request,
                             v1::WorkerGroup* reply) {
    auto* reactor = call->DefaultReactor();
    absl::Status status = tokens_.Check(Authorization(*call));
    if (status.ok()) status = request.status;
    if (const auto violations = CheckMessage(request.message); status.ok() && !violations.empty()) {
      status = InvalidFields(violations);
    }
    if (!status.ok()) {
      reactor->Finish(ToGrpcStatus(status));
      return reactor;
    }
    method(request.message.id(), [reactor, reply](absl::StatusOr<v1::WorkerGroup> group) {
      if (group.ok()) *reply = *std::move(group);
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
