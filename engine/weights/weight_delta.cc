#include "engine/weights/weight_delta.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/ops/host_product.h"

namespace kinora {

absl::StatusOr<LowRankDelta> LowRankDelta::Read(absl::Span<const LowRankTerm> terms) {
  KINORA_CHECK(!terms.empty());
  const int64_t rows = terms[0].rows(), columns = terms[0].columns();
  int64_t rank = 0, widest = 0;
  for (const LowRankTerm& term : terms) {
    KINORA_CHECK(term.rows() == rows && term.columns() == columns && term.up.columns() == term.down.rows());
    rank += term.down.rows();
    widest = std::max(widest, term.down.rows());
  }
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  KINORA_ASSIGN_OR_RETURN(Buffer up, Buffer::Allocate(rows * rank * kSize, "the factors of a LoRA"));
  KINORA_ASSIGN_OR_RETURN(Buffer down, Buffer::Allocate(rank * columns * kSize, "the factors of a LoRA"));
  KINORA_ASSIGN_OR_RETURN(const Buffer whole, Buffer::Allocate(rows * widest * kSize, "the factors of a LoRA"));
  auto* to_up = static_cast<float*>(up.data());
  auto* to_down = static_cast<float*>(down.data());
  const auto* read = static_cast<const float*>(whole.data());
  for (const LowRankTerm& term : terms) {
    const int64_t own = term.down.rows();
    KINORA_RETURN_IF_ERROR(term.up.Read({.rows = rows, .columns = own}, DType::kF32, whole.data()));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t r = 0; r < own; ++r) to_up[row * rank + r] = term.strength * read[row * own + r];
    }
    KINORA_RETURN_IF_ERROR(term.down.Read({.rows = own, .columns = columns}, DType::kF32, to_down));
    to_up += own;
    to_down += own * columns;
  }
  return LowRankDelta(rank, columns, std::move(up), std::move(down));
}

void LowRankDelta::AddTo(const Block& block, float* values) const {
  const HostRows up{static_cast<const float*>(up_.data()) + block.row * rank_, rank_};
  const HostRows down{static_cast<const float*>(down_.data()) + block.column, columns_};
  AddHostProduct(up, down, block.rows, rank_, block.columns, values, block.columns);
}

}  // namespace kinora
