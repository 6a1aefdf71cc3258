// PrepareWeight, for every backend, and the defaults of the other weight ops.
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/ops.h"

namespace kinora {

absl::StatusOr<Weight> WeightOps::PrepareWeight(const Tensor& matrix, const Tensor* bias, DType dtype) {
  const int rank = matrix.shape().rank();
  KINORA_CHECK(rank == 2 || rank == 3) << matrix.shape().ToString();
  KINORA_CHECK(matrix.contiguous());
  const int64_t taps = rank == 3 ? matrix.dim(1) : 1;
  const int64_t row_bytes = taps * matrix.dim(-1) * DTypeSize(matrix.dtype());
  const auto copy = [&](int64_t begin, int64_t end, void* rows) {
    std::memcpy(rows, static_cast<const char*>(matrix.raw()) + begin * row_bytes, (end - begin) * row_bytes);
    return absl::OkStatus();
  };
  const WeightRows rows{
      .out = matrix.dim(0), .taps = taps, .in = matrix.dim(-1), .dtype = matrix.dtype(), .read = copy};
  KINORA_ASSIGN_OR_RETURN(std::vector<Weight> weights, PrepareWeights(rows, bias, dtype));
  return std::move(weights.front());
}

absl::Status WeightOps::RewriteWeights(absl::Span<const Rewriting> many) {
  for (const Rewriting& one : many) {
    KINORA_CHECK(one.products.empty()) << "this backend adds no products";
    KINORA_RETURN_IF_ERROR(RewriteWeights(one.rows, one.dtype, one.storage));
  }
  return absl::OkStatus();
}

absl::Status WeightOps::EvictWeight(const Weight&) {
  KINORA_CHECK(false) << "this backend's weights stay where they are";
  return absl::OkStatus();
}

void WeightOps::FetchWeight(const Weight&, const Tensor&) { KINORA_CHECK(false) << "nothing was evicted"; }

}  // namespace kinora
