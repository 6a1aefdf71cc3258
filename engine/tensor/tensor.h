// Typed, shaped views of memory that a Buffer or an Arena owns.
#ifndef KINORA_ENGINE_TENSOR_TENSOR_H_
#define KINORA_ENGINE_TENSOR_TENSOR_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/tensor/dtype.h"

namespace kinora {

// Up to six extents, outermost first. A Shape is a value; it never allocates.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i < 0 ? rank_ + i : i]; }
  int64_t elements() const;  // 1 for rank 0
  absl::Span<const int64_t> dims() const { return absl::MakeConstSpan(dims_.data(), rank_); }
  std::string ToString() const;  // "[17, 64]"
  friend bool operator==(const Shape& a, const Shape& b) { return a.dims() == b.dims(); }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// A view: copying it copies the view, never the data. Memory is row-major; rows of the last dimension lie `row_stride`
// elements apart (the width, unless Columns made the view). In a dry run data is null and only the shape counts.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, const Shape& shape, void* data) : Tensor(dtype, shape, data, shape.rank() ? shape[-1] : 1) {}
  Tensor(DType dtype, const Shape& shape, void* data, int64_t row_stride)
      : data_(data), row_stride_(row_stride), shape_(shape), dtype_(dtype) {}

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }                         // dim(-1) is the width
  int64_t width() const { return shape_.rank() == 0 ? 1 : shape_[-1]; }  // 1 for a scalar or an undefined tensor
  int64_t rows() const { return shape_.elements() / width(); }           // product of all but the last dimension
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return elements() * DTypeSize(dtype_); }
  int64_t row_stride() const { return row_stride_; }
  bool contiguous() const { return row_stride_ == width() || rows() == 1; }
  bool defined() const { return shape_.rank() > 0; }  // false: an absent optional input

  // CHECK-fails if T is not the dtype.
  template <typename T>
  T* data() const {
    KINORA_CHECK(dtype_ == DTypeOf<T>::value) << "tensor is " << DTypeName(dtype_);
    return static_cast<T*>(data_);
  }
  void* raw() const { return data_; }

  Tensor Rows(int64_t begin, int64_t end) const;     // [begin, end) of the first dimension
  Tensor Columns(int64_t begin, int64_t end) const;  // [begin, end) of the last dimension
  Tensor Reshape(const Shape& shape) const;          // same elements; a strided view may only regroup its rows
  Tensor As2D() const { return Reshape({rows(), width()}); }

 private:
  void* data_ = nullptr;
  int64_t row_stride_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_TENSOR_H_
