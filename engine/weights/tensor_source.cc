#include "engine/weights/tensor_source.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/weights/float_formats.h"

namespace kinora {
namespace {

constexpr int64_t kStagingBytes = int64_t{1} << 18;  // stays in the cache between read and widening
// Shorter parts of rows are read together with the gaps between them: a call costs as much as copying a few pages, and
// a disk reads further ahead anyway.
constexpr int64_t kWorthACall = int64_t{16} << 10;

}  // namespace

absl::Status TensorSource::ReadElements(int64_t first, int64_t count, DType dtype, void* out) const {
  const DType stored = entry_.tensor->dtype;
  const int64_t size = DTypeSize(stored);
  if (stored == dtype) {
    KINORA_RETURN_IF_ERROR(entry_.file->Read(*entry_.tensor, first * size, count * size, out));
  } else {
    const int64_t chunk = std::min(count, kStagingBytes / size);
    const auto staging = std::make_unique_for_overwrite<char[]>(std::max<int64_t>(1, chunk * size));
    for (int64_t done = 0; done < count; done += chunk) {
      const int64_t n = std::min(chunk, count - done);
      KINORA_RETURN_IF_ERROR(entry_.file->Read(*entry_.tensor, (first + done) * size, n * size, staging.get()));
      WidenToF32(stored, staging.get(), n, static_cast<float*>(out) + done);
    }
  }
  if (scale_ != 1.0f) std::for_each_n(static_cast<float*>(out), count, [this](float& x) { x *= scale_; });
  return absl::OkStatus();
}

absl::Status TensorSource::Read(const Block& block, DType dtype, void* out) const {
  KINORA_CHECK(dtype == DType::kF32 || dtype == this->dtype()) << entry_.tensor->name << " as " << DTypeName(dtype);
  KINORA_CHECK(0 <= block.row && 0 <= block.rows && block.row + block.rows <= rows()) << entry_.tensor->name;
  KINORA_CHECK(0 <= block.column && 0 <= block.columns && block.column + block.columns <= columns())
      << entry_.tensor->name;
  if (block.columns == columns()) {
    return ReadElements(block.row * columns(), block.rows * columns(), dtype, out);
  }
  char* to = static_cast<char*>(out);
  const int64_t size = DTypeSize(dtype), part_bytes = block.columns * size;
  const auto first = [&](int64_t row) { return (block.row + row) * columns() + block.column; };
  if (block.columns * DTypeSize(entry_.tensor->dtype) >= kWorthACall) {
    for (int64_t row = 0; row < block.rows; ++row, to += part_bytes) {
      KINORA_RETURN_IF_ERROR(ReadElements(first(row), block.columns, dtype, to));
    }
    return absl::OkStatus();
  }
  const int64_t rows_a_call = std::max<int64_t>(1, kStagingBytes / (columns() * size));
  const auto staging = std::make_unique_for_overwrite<char[]>(std::max<int64_t>(1, rows_a_call * columns() * size));
  for (int64_t row = 0; row < block.rows; row += rows_a_call) {
    const int64_t rows = std::min(rows_a_call, block.rows - row), span = (rows - 1) * columns() + block.columns;
    KINORA_RETURN_IF_ERROR(ReadElements(first(row), span, dtype, staging.get()));
    for (int64_t r = 0; r < rows; ++r, to += part_bytes) {
      std::memcpy(to, staging.get() + r * columns() * size, part_bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace kinora
