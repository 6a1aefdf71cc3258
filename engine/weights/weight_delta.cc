#include "engine/weights/weight_delta.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int64_t kTileRows = 4, kTileColumns = 8;  // sums that stay in registers
using Four = float __attribute__((vector_size(16)));

// values [4, 8] += up [4, rank] · panel [rank, 8]; rows of `values` are `stride` apart.
void AddTile(const float* up, const float* panel, int64_t rank, float* values, int64_t stride) {
  Four sums[kTileRows][2] = {};
  for (int64_t r = 0; r < rank; ++r, panel += kTileColumns) {
    Four left, right;
    std::memcpy(&left, panel, sizeof left);
    std::memcpy(&right, panel + 4, sizeof right);
    for (int64_t row = 0; row < kTileRows; ++row) {
      sums[row][0] += up[row * rank + r] * left;
      sums[row][1] += up[row * rank + r] * right;
    }
  }
  for (int64_t row = 0; row < kTileRows; ++row, values += stride) {
    Four left, right;
    std::memcpy(&left, values, sizeof left);
    std::memcpy(&right, values + 4, sizeof right);
    left += sums[row][0];
    right += sums[row][1];
    std::memcpy(values, &left, sizeof left);
    std::memcpy(values + 4, &right, sizeof right);
  }
}

// As AddTile, element by element, for a partial tile: values [rows, columns] += up · panel [rank, 8].
void AddPart(const float* up, const float* panel, int64_t rank, int64_t rows, int64_t columns, float* values,
             int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      float sum = 0;
      for (int64_t r = 0; r < rank; ++r) sum += up[row * rank + r] * panel[r * kTileColumns + i];
      values[row * stride + i] += sum;
    }
  }
}

}  // namespace

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
  const auto* up = static_cast<const float*>(up_.data()) + block.row * rank_;
  const auto* down = static_cast<const float*>(down_.data()) + block.column;
  std::vector<float> panel(rank_ * kTileColumns);  // a few columns of `down`, packed: there they are far apart
  for (int64_t column = 0; column < block.columns; column += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, block.columns - column);
    for (int64_t r = 0; r < rank_; ++r) std::copy_n(down + r * columns_ + column, columns, &panel[r * kTileColumns]);
    for (int64_t row = 0; row < block.rows; row += kTileRows) {
      const int64_t rows = std::min(kTileRows, block.rows - row);
      float* const to = values + row * block.columns + column;
      if (rows == kTileRows && columns == kTileColumns) {
        AddTile(up + row * rank_, panel.data(), rank_, to, block.columns);
      } else {
        AddPart(up + row * rank_, panel.data(), rank_, rows, columns, to, block.columns);
      }
    }
  }
}

}  // namespace kinora
