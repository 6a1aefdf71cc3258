#include <utility>

#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/api/method_service.h"
#include "server/frontend/api/video_service.h"

namespace kinora {
namespace {

const google::protobuf::ServiceDescriptor* Descriptor(const char* name) {
  return v1::WorkerGroupRequest::descriptor()->file()->FindServiceByName(name);
}

class ModelsService : public MethodService {
 public:
  ModelsService(ServiceContext& context, const CallAccess& access)
      : MethodService(Descriptor("Models"), access), context_(context) {
    Unary("ListModels", &ModelsService::List);
  }

 private:
  void List(const google::protobuf::Empty&, UnaryReply<v1::ListModelsResponse> reply) {
    context_.catalogue.Models([this, reply](absl::StatusOr<std::vector<v1::ModelInfo>> models) {
      if (!models.ok()) return reply(models.status());
      v1::ListModelsResponse listed;
      listed.mutable_models()->Assign(models->begin(), models->end());
      listed.set_default_model(context_.limits.default_model);
      reply(listed);
    });
  }

  ServiceContext& context_;
};

class AdminService : public MethodService {
 public:
  AdminService(GroupControl control, const CallAccess& access)
      : MethodService(Descriptor("Admin"), access), control_(std::move(control)) {
    Unary("ListWorkerGroups", &AdminService::List);
    Unary("DrainWorkerGroup", &AdminService::Drain);
    Unary("RestartWorkerGroup", &AdminService::Restart);
  }

 private:
  void List(const google::protobuf::Empty&, UnaryReply<v1::ListWorkerGroupsResponse> reply) {
    control_.list([reply](absl::StatusOr<std::vector<v1::WorkerGroup>> groups) {
      if (!groups.ok()) return reply(groups.status());
      v1::ListWorkerGroupsResponse listed;
      listed.mutable_groups()->Assign(groups->begin(), groups->end());
      reply(listed);
    });
  }

  void Drain(const v1::WorkerGroupRequest& request, UnaryReply<v1::WorkerGroup> reply) {
    control_.drain(request, reply);
  }

  void Restart(const v1::WorkerGroupRequest& request, UnaryReply<v1::WorkerGroup> reply) {
    control_.restart(request, reply);
  }

  const GroupControl control_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeModelsService(ServiceContext& context, const CallAccess& access) {
  return std::make_unique<ModelsService>(context, access);
}

std::unique_ptr<grpc::Service> MakeAdminService(GroupControl control, const CallAccess& access) {
  return std::make_unique<AdminService>(std::move(control), access);
}

}  // namespace kinora
