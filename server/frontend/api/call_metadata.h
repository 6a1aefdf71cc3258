// What a call's metadata says of its sender.
#ifndef KINORA_SERVER_FRONTEND_API_CALL_METADATA_H_
#define KINORA_SERVER_FRONTEND_API_CALL_METADATA_H_

#include <grpcpp/server_context.h>

#include <string_view>

namespace kinora {

inline std::string_view Authorization(const grpc::CallbackServerContext& call) {  // "": none
  const auto found = call.client_metadata().find("authorization");
  if (found == call.client_metadata().end()) return "";
  return std::string_view(found->second.data(), found->second.size());
}

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_CALL_METADATA_H_
