// The description of the HTTP API (OpenAPI 3.1), served at /openapi.json.
#ifndef KINORA_SERVER_GATEWAY_OPENAPI_H_
#define KINORA_SERVER_GATEWAY_OPENAPI_H_

#include <string_view>

namespace kinora {

std::string_view OpenApiDocument();

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_OPENAPI_H_
