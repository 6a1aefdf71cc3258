#include "engine/weights/file_rows.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/weights/float_formats.h"

namespace kinora {
namespace {

struct Columns {
  int64_t begin, end;
};

// Transposes the columns of from [in, count] -> to [columns, in], whose rows are `stride` apart.
template <typename T>
void TransposeRow(const T* from, int64_t in, int64_t count, Columns columns, T* to, int64_t stride) {
  constexpr int64_t kBlock = 64;  // elements of `in`: their part of `from` stays in the first-level cache
  for (int64_t begin = 0; begin < in; begin += kBlock) {
    const int64_t end = std::min(in, begin + kBlock);
    for (int64_t n = columns.begin; n < columns.end; ++n) {
      for (int64_t i = begin; i < end; ++i) to[(n - columns.begin) * stride + i] = from[i * count + n];
    }
  }
}

void TransposeRow(DType dtype, const char* from, int64_t in, int64_t count, Columns columns, char* to, int64_t stride) {
  if (dtype == DType::kF32) {
    TransposeRow(reinterpret_cast<const float*>(from), in, count, columns, reinterpret_cast<float*>(to), stride);
  } else {
    TransposeRow(reinterpret_cast<const bf16*>(from), in, count, columns, reinterpret_cast<bf16*>(to), stride);
  }
}

}  // namespace

absl::Status LocatedTensor::Read(const Block& block, DType dtype, void* out) const {
  KINORA_RETURN_IF_ERROR(source->Read(block, dtype, out));
  if (delta != nullptr) delta->AddTo(block, static_cast<float*>(out));
  if (!AllFinite(dtype, out, block.rows * block.columns)) *not_finite = true;
  return absl::OkStatus();
}

DType CommonType(absl::Span<const LocatedTensor> tensors) {
  const bool narrow = std::all_of(tensors.begin(), tensors.end(), [](const LocatedTensor& tensor) {
    return tensor.source && tensor.source->dtype() == DType::kBF16 && tensor.delta == nullptr;
  });
  return narrow ? DType::kBF16 : DType::kF32;
}

absl::Status ReadStackedRows(absl::Span<const LocatedTensor> tensors, const Block& part, DType dtype, int64_t begin,
                             int64_t end, void* to) {
  char* next = static_cast<char*>(to);
  for (int64_t row = begin; row < end;) {  // a run may span several matrices
    Block block = part;
    block.row += row % part.rows;
    block.rows = std::min(end - row, part.rows - row % part.rows);
    KINORA_RETURN_IF_ERROR(tensors[row / part.rows].Read(block, dtype, next));
    next += block.rows * block.columns * DTypeSize(dtype);
    row += block.rows;
  }
  return absl::OkStatus();
}

absl::Status ReadInterleavedRows(const LocatedTensor& tensor, const InterleavedSpec& spec, DType dtype, int64_t begin,
                                 int64_t end, void* to) {
  const int64_t rows = end - begin, width = spec.in * spec.count, size = DTypeSize(dtype);
  const auto file = std::make_unique_for_overwrite<char[]>(rows * width * size);
  KINORA_RETURN_IF_ERROR(tensor.Read({.row = begin, .rows = rows, .columns = width}, dtype, file.get()));
  for (int64_t row = 0; row < rows; ++row) {
    char* first = static_cast<char*>(to) + row * spec.in * size;
    TransposeRow(dtype, file.get() + row * width * size, spec.in, spec.count, {spec.begin, spec.end}, first,
                 rows * spec.in);
  }
  return absl::OkStatus();
}

absl::Status ReadConvRows(const LocatedTensor& tensor, const ConvSpec& spec, DType dtype, int64_t begin, int64_t end,
                          void* to) {
  const int64_t taps = spec.kernel.elements(), width = taps * spec.in, bytes = width * DTypeSize(dtype);
  const auto channel = [&](int64_t wanted) { return FileChannel(spec.order, spec.out, wanted); };
  const auto file = std::make_unique_for_overwrite<char[]>((end - begin) * bytes);  // [end − begin, in, taps]
  for (int64_t o = begin; o < end;) {  // adjacent channels are read together
    int64_t next = o + 1;
    while (next < end && channel(next) == channel(o) + next - o) ++next;
    char* rows = file.get() + (o - begin) * bytes;
    KINORA_RETURN_IF_ERROR(tensor.Read({.row = channel(o), .rows = next - o, .columns = width}, dtype, rows));
    o = next;
  }
  for (int64_t row = 0; row < end - begin; ++row) {
    TransposeRow(dtype, file.get() + row * bytes, spec.in, taps, {0, taps}, static_cast<char*>(to) + row * bytes,
                 spec.in);
  }
  return absl::OkStatus();
}

int64_t FileChannel(const ChannelOrder& order, int64_t out, int64_t wanted) {
  const SpaceTime& f = order.factor;
  if (wanted < order.paired) {
    const int64_t half = order.head_width / 2, in_head = wanted % order.head_width;
    return wanted - in_head + in_head % half * 2 + in_head / half;
  }
  const int64_t channels = out / f.product();
  const int64_t c = wanted % channels;
  wanted /= channels;
  const int64_t w = wanted % f.width, h = wanted / f.width % f.height, t = wanted / f.width / f.height;
  const int64_t plane = order.width_before_height ? w * f.height + h : h * f.width + w;
  return (c * f.time + t) * f.height * f.width + plane;
}

}  // namespace kinora
