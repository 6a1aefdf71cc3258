#include "engine/weights/tensor_source.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/weights/float_formats.h"

namespace kinora {
namespace {

constexpr int64_t kStagingBytes = int64_t{1} << 20;  // stays in the cache between read and widening

bool NotFinite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u; }

}  // namespace

absl::Status TensorSource::ReadElements(int64_t first, int64_t count, float* out) const {
  const DType dtype = entry_.tensor->dtype;
  const int64_t size = DTypeSize(dtype);
  if (dtype == DType::kF32) {
    KINORA_RETURN_IF_ERROR(entry_.file->Read(*entry_.tensor, first * size, count * size, out));
  } else {
    const int64_t chunk = std::min(count, kStagingBytes / size);
    const auto staging = std::make_unique_for_overwrite<char[]>(std::max<int64_t>(1, chunk * size));
    for (int64_t done = 0; done < count; done += chunk) {
      const int64_t n = std::min(chunk, count - done);
      KINORA_RETURN_IF_ERROR(entry_.file->Read(*entry_.tensor, (first + done) * size, n * size, staging.get()));
      WidenToF32(dtype, staging.get(), n, out + done);
    }
  }
  if (scale_ != 1.0f) {
    for (int64_t i = 0; i < count; ++i) out[i] *= scale_;
  }
  return absl::OkStatus();
}

absl::Status TensorSource::ReadRows(int64_t begin, int64_t end, float* out) const {
  const int64_t rows = shape().rank() == 0 ? 1 : shape()[0];
  KINORA_CHECK(0 <= begin && begin <= end && end <= rows) << entry_.tensor->name;
  const int64_t width = rows == 0 ? 0 : shape().elements() / rows;
  return ReadElements(begin * width, (end - begin) * width, out);
}

absl::Status TensorSource::ReadColumns(int64_t begin, int64_t end, float* out) const {
  KINORA_CHECK(shape().rank() == 2 && 0 <= begin && begin <= end && end <= shape()[1]) << entry_.tensor->name;
  if (begin == 0 && end == shape()[1]) return ReadRows(0, shape()[0], out);
  for (int64_t row = 0; row < shape()[0]; ++row) {
    KINORA_RETURN_IF_ERROR(ReadElements(row * shape()[1] + begin, end - begin, out + row * (end - begin)));
  }
  return absl::OkStatus();
}

int64_t FirstNotFinite(const float* values, int64_t count) {
  constexpr int64_t kBlock = 4096;  // a branch per block lets the inner loop run in vectors
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    bool found = false;
    for (int64_t i = begin; i < end; ++i) found |= NotFinite(values[i]);
    if (found) return std::find_if(values + begin, values + end, NotFinite) - values;
  }
  return -1;
}

}  // namespace kinora
