#include "tests/bench/random_checkpoint.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/weights/safetensors.h"

namespace kinora {

absl::Status WriteRandomCheckpoint(const std::string& path, const std::vector<RecordedTensor>& tensors) {
  SafetensorsWriter writer;
  for (const RecordedTensor& tensor : tensors) writer.Declare(tensor.name, DType::kBF16, tensor.shape);
  KINORA_RETURN_IF_ERROR(writer.Open(path));
  uint32_t state = 12345;
  std::vector<bf16> chunk(1 << 16);
  for (const RecordedTensor& tensor : tensors) {
    const int64_t total = tensor.shape.elements(), fan_in = tensor.shape.rank() > 1 ? total / tensor.shape[0] : 0;
    const float scale = fan_in > 0 ? std::sqrt(3.0f / static_cast<float>(fan_in)) : 0.1f;
    for (int64_t done = 0; done < total;) {
      const int64_t n = std::min<int64_t>(total - done, static_cast<int64_t>(chunk.size()));
      for (int64_t i = 0; i < n; ++i) {
        state = state * 1664525u + 1013904223u;  // generator of Numerical Recipes: fast, and only the deviation matters
        chunk[i] = bf16(scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f));
      }
      KINORA_RETURN_IF_ERROR(writer.Append(tensor.name, chunk.data(), n * 2));
      done += n;
    }
  }
  return writer.Close();
}

}  // namespace kinora
