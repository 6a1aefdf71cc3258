// The beginning of any file: its type is one of those that there are, or none, and a decoder knows it.
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "server/common/media_type.h"
#include "server/decode/decode_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view type = kinora::MediaTypeOf({reinterpret_cast<const char*>(data), size});
  KINORA_CHECK(type.empty() || (kinora::IsMediaType(type) && kinora::MediaKindOf(type).ok()));
  return 0;
}
