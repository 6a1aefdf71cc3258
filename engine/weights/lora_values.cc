#include "engine/weights/lora_values.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/tensor_source.h"

namespace kinora {
namespace {

constexpr int64_t kAtOnce = int64_t{1} << 20;  // values

bool IsFactor(const TensorInfo& tensor) {
  return tensor.name.ends_with(".lora_A.weight") || tensor.name.ends_with(".lora_B.weight");
}

}  // namespace

absl::Status CheckLoraValues(const Lora& lora, absl::FunctionRef<absl::Status()> on_piece) {
  std::vector<float> values;
  for (const TensorInfo& tensor : lora.file()->tensors()) {
    if (!IsFactor(tensor)) continue;
    const TensorSource source({lora.file().get(), &tensor}, 1);
    const int64_t most = std::max<int64_t>(1, kAtOnce / source.columns());
    for (int64_t row = 0; row < source.rows(); row += most) {
      const int64_t rows = std::min(most, source.rows() - row);
      values.resize(rows * source.columns());
      KINORA_RETURN_IF_ERROR(
          source.Read({.row = row, .rows = rows, .columns = source.columns()}, DType::kF32, values.data()));
      if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
        return absl::InvalidArgumentError(Cat(lora.path(), ": tensor ", tensor.name, ": holds NaN or infinity"));
      }
      KINORA_RETURN_IF_ERROR(on_piece());
    }
  }
  return absl::OkStatus();
}

}  // namespace kinora
