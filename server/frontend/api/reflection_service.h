// grpc.reflection.v1alpha: the descriptors of the services of one server, for grpcurl and its like. Unlike gRPC's own
// it asks for the token and takes no thread for each client.
#ifndef KINORA_SERVER_FRONTEND_API_REFLECTION_SERVICE_H_
#define KINORA_SERVER_FRONTEND_API_REFLECTION_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "server/frontend/api/method_service.h"

namespace kinora {

// `services`: their full names.
std::unique_ptr<grpc::Service> MakeReflectionService(std::vector<std::string> services, const CallAccess& access);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REFLECTION_SERVICE_H_
