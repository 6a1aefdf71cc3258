// grpc.reflection.v1alpha: serves the descriptors of one server's services to grpcurl and similar tools. Unlike gRPC's
// own service it requires the token and uses no thread per client.
#ifndef KINORA_SERVER_FRONTEND_API_REFLECTION_SERVICE_H_
#define KINORA_SERVER_FRONTEND_API_REFLECTION_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "server/frontend/api/method_service.h"

namespace kinora {

// `services`: full names.
std::unique_ptr<grpc::Service> MakeReflectionService(std::vector<std::string> services, const CallAccess& access);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REFLECTION_SERVICE_H_
