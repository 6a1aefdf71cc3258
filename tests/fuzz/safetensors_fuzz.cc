// The first two bytes are the size of the data after the header; the rest is the header's JSON. An accepted header must
// cover the data exactly, and every rename table must handle its names.
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "engine/weights/key_tables.h"
#include "engine/weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  if (size < 2) return 0;
  const int64_t data_bytes = data[0] | data[1] << 8;
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto header = ParseSafetensorsHeader(json, data_bytes);
  if (!header.ok()) {
    KINORA_CHECK(!header.status().message().empty());
    return 0;
  }
  int64_t end = 0;
  for (const TensorInfo& tensor : header->tensors) {
    KINORA_CHECK(tensor.offset == end && tensor.bytes == tensor.shape.elements() * DTypeSize(tensor.dtype))
        << tensor.name;
    end += tensor.bytes;
    if (const auto canonical = CanonicalFromSingleFile(tensor.name)) DiffusersFromCanonical(*canonical);
    for (const char* component : {"transformer", "connectors", "vae", "audio_vae", "vocoder"}) {
      IsKnownUnread(CanonicalFromDiffusers(component, tensor.name));
    }
    CanonicalFromTextEncoder(tensor.name);
  }
  KINORA_CHECK_EQ(end, data_bytes);
  return 0;
}
