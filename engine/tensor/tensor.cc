#include "engine/tensor/tensor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kinora {

int64_t DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "f8_e4m3";
    case DType::kF8E5M2:
      return "f8_e5m2";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

Shape::Shape(absl::Span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  KINORA_CHECK(rank_ <= kMaxRank) << "rank " << rank_;
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int64_t d : dims()) n *= d;
  return n;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims(), ", "), "]"); }

namespace {

// Null stays null: a dry run has shapes and no memory.
void* Offset(void* data, int64_t bytes) { return data == nullptr ? nullptr : static_cast<char*>(data) + bytes; }

Shape WithDim(const Shape& shape, int axis, int64_t extent) {
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::copy(shape.dims().begin(), shape.dims().end(), dims.begin());
  dims[axis] = extent;
  return Shape(absl::MakeConstSpan(dims.data(), shape.rank()));
}

}  // namespace

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  KINORA_CHECK(0 <= begin && begin <= end && end <= dim(0)) << begin << ".." << end << " of " << shape_.ToString();
  if (shape_.rank() == 1) return Tensor(dtype_, {end - begin}, Offset(data_, begin * DTypeSize(dtype_)));
  const int64_t rows_each = dim(0) == 0 ? 0 : rows() / dim(0);
  return Tensor(dtype_, WithDim(shape_, 0, end - begin),
                Offset(data_, begin * rows_each * row_stride_ * DTypeSize(dtype_)), row_stride_);
}

Tensor Tensor::Columns(int64_t begin, int64_t end) const {
  KINORA_CHECK(0 <= begin && begin <= end && end <= width()) << begin << ".." << end << " of " << shape_.ToString();
  return Tensor(dtype_, WithDim(shape_, shape_.rank() - 1, end - begin), Offset(data_, begin * DTypeSize(dtype_)),
                row_stride_);
}

Tensor Tensor::Reshape(const Shape& shape) const {
  KINORA_CHECK(shape.elements() == elements()) << shape_.ToString() << " to " << shape.ToString();
  if (contiguous()) return Tensor(dtype_, shape, data_);
  KINORA_CHECK(shape[-1] == width()) << "a strided view keeps its width: " << shape_.ToString() << " to "
                                     << shape.ToString();
  return Tensor(dtype_, shape, data_, row_stride_);
}

}  // namespace kinora
