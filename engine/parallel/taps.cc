#include "engine/parallel/taps.h"

#include <vector>

namespace kinora {

void Taps::Record(Stream& stream, std::string_view name, const Tensor& value) {
  std::vector<char> host(value.bytes());
  if (value.contiguous()) {
    stream.CopyToHost(value, host.data());
  } else {
    const Tensor rows = value.As2D();
    const int64_t row_bytes = rows.width() * DTypeSize(rows.dtype());
    for (int64_t row = 0; row < rows.rows(); ++row) stream.CopyToHost(rows.Rows(row, row + 1), &host[row * row_bytes]);
  }
  const absl::Status copied = stream.Synchronize();
  if (!copied.ok()) return stream.Fail(copied);
  sink_(name, Tensor(value.dtype(), value.shape(), host.data()));
}

}  // namespace kinora
