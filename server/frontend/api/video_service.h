// The services of the public and Admin APIs. Each method validates, converts and delegates; none blocks a gRPC thread.
#ifndef KINORA_SERVER_FRONTEND_API_VIDEO_SERVICE_H_
#define KINORA_SERVER_FRONTEND_API_VIDEO_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/frontend/api/server_call.h"
#include "server/frontend/api/service_context.h"

namespace grpc {
class Service;
}

namespace kinora {

struct GroupControl {  // calls of the dispatcher
  std::function<void(Done<std::vector<v1::WorkerGroup>>)> list;
  std::function<void(const v1::WorkerGroupRequest&, Done<v1::WorkerGroup>)> drain, restart;
};

std::unique_ptr<grpc::Service> MakeVideoService(ServiceContext& context, const CallAccess& access);
std::unique_ptr<grpc::Service> MakeModelsService(ServiceContext& context, const CallAccess& access);
std::unique_ptr<grpc::Service> MakeAdminService(GroupControl control, const CallAccess& access);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_VIDEO_SERVICE_H_
