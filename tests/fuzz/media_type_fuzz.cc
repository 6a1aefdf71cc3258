// The first bytes of any file: the result is no type, or a known type that a decoder supports.
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "server/decode/decode_protocol.h"
#include "server/request/media_type.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view type = kinora::MediaTypeOf({reinterpret_cast<const char*>(data), size});
  KINORA_CHECK(type.empty() || (kinora::IsMediaType(type) && kinora::MediaKindOf(type).ok()));
  return 0;
}
