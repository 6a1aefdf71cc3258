// Normalisation by the range of a whole tensor (the text features of LTX-2.0). Partial results of rows are merged in
// row order, in double.
#include <algorithm>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"

namespace kinora {
namespace {

struct RowRange {
  double sum;
  float minimum, maximum;
};

template <typename T>
RowRange RangeOf(const T* x, int64_t width) {
  RowRange range{0.0, static_cast<float>(x[0]), static_cast<float>(x[0])};
  for (int64_t i = 0; i < width; ++i) {
    const float value = static_cast<float>(x[i]);
    range.sum += value;
    range.minimum = std::min(range.minimum, value);
    range.maximum = std::max(range.maximum, value);
  }
  return range;
}

template <typename T>
T* RowOf(const Tensor& t, int64_t row) {
  return t.data<T>() + row * t.row_stride();
}

}  // namespace

void CpuOps::NormalizeRange(const Tensor& x, float scale, float eps, Tensor out) {
  KINORA_CHECK(x.rows() == out.rows() && x.width() == out.width() && x.rows() > 0) << x.shape().ToString();
  KINORA_CHECK(x.rows() * static_cast<int64_t>(sizeof(RowRange)) <= kWorkspaceBytes) << x.rows() << " rows";
  stream_.Enqueue([this, x, scale, eps, out] {
    auto* ranges = static_cast<RowRange*>(workspace_[0].data());
    ForRows(x.rows(), x.width() * 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        ranges[row] = x.dtype() == DType::kF32 ? RangeOf(RowOf<float>(x, row), x.width())
                                               : RangeOf(RowOf<bf16>(x, row), x.width());
      }
    });
    RowRange whole = ranges[0];
    for (int64_t row = 1; row < x.rows(); ++row) {
      whole.sum += ranges[row].sum;
      whole.minimum = std::min(whole.minimum, ranges[row].minimum);
      whole.maximum = std::max(whole.maximum, ranges[row].maximum);
    }
    const float mean = static_cast<float>(whole.sum / (static_cast<double>(x.elements()) + eps));
    const float factor = scale / (whole.maximum - whole.minimum + eps);
    ForRows(x.rows(), x.width() * 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t i = 0; i < x.width(); ++i) {
          const float value =
              x.dtype() == DType::kF32 ? RowOf<float>(x, row)[i] : static_cast<float>(RowOf<bf16>(x, row)[i]);
          const float normed = (value - mean) * factor;
          if (out.dtype() == DType::kF32) {
            RowOf<float>(out, row)[i] = normed;
          } else {
            RowOf<bf16>(out, row)[i] = bf16(normed);
          }
        }
      }
    });
  });
}

}  // namespace kinora
