#include "server/gateway/openapi.h"

#include <cstddef>

namespace kinora {

extern const unsigned char kOpenApi[];  // openapi.json, which the build embeds
extern const size_t kOpenApiSize;

std::string_view OpenApiDocument() { return {reinterpret_cast<const char*>(kOpenApi), kOpenApiSize}; }

}  // namespace kinora
