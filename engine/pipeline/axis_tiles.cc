#include "engine/pipeline/axis_tiles.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

// The i-th of `steps` equally spaced values from `from` to `to`, counted from the nearer end, as torch.linspace does.
float LinSpace(float from, float to, int64_t steps, int64_t i) {
  const float step = (to - from) / static_cast<float>(steps - 1);
  return i < steps / 2 ? from + step * static_cast<float>(i) : to - step * static_cast<float>(steps - 1 - i);
}

std::vector<float> SumOfMasks(const std::vector<AxisTile>& tiles, int64_t AxisTile::*begin) {
  const AxisTile& last = tiles.back();
  std::vector<float> sum(last.*begin + static_cast<int64_t>(last.mask.size()), 0.0f);
  for (const AxisTile& tile : tiles) {
    for (size_t i = 0; i < tile.mask.size(); ++i) sum[tile.*begin + static_cast<int64_t>(i)] += tile.mask[i];
  }
  return sum;
}

bool SumsToOne(const std::vector<float>& sums) {
  return std::all_of(sums.begin(), sums.end(), [](float sum) { return std::abs(sum - 1.0f) <= 1e-5f; });
}

}  // namespace

std::vector<CellInterval> SplitCells(int64_t length, int64_t size, int64_t overlap) {
  if (length <= size) return {{0, length, 0, 0}};
  const int64_t stride = size - overlap;
  const int64_t count = (length - overlap + stride - 1) / stride;
  std::vector<CellInterval> intervals;
  for (int64_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    intervals.push_back({i * stride, last ? length : i * stride + size, i == 0 ? 0 : overlap, last ? 0 : overlap});
  }
  return intervals;
}

std::vector<float> Trapezoid(int64_t length, int64_t left, int64_t right, bool left_from_zero) {
  std::vector<float> mask(length, 1.0f);
  left = std::min(left, length);
  right = std::min(right, length);
  for (int64_t i = 0; i < left; ++i) {
    mask[i] *= left_from_zero ? LinSpace(0, 1, left + 1, i) : LinSpace(0, 1, left + 2, i + 1);
  }
  for (int64_t i = 0; i < right; ++i) mask[length - right + i] *= LinSpace(1, 0, right + 2, i + 1);
  for (float& value : mask) value = std::clamp(value, 0.0f, 1.0f);
  return mask;
}

void AddWeights(int64_t AxisTile::*begin, TilePlan* plan) {
  plan->time_weight = SumOfMasks(plan->time, begin);
  plan->height_weight = SumOfMasks(plan->height, begin);
  plan->width_weight = SumOfMasks(plan->width, begin);
  plan->complementary = SumsToOne(plan->time_weight) && SumsToOne(plan->height_weight) && SumsToOne(plan->width_weight);
}

absl::StatusOr<AxisTiling> InCells(std::string_view name, const AxisTiling& axis, int64_t length, int64_t factor) {
  if (axis.size == 0 && axis.overlap == 0) return AxisTiling{.size = length};
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tiling: ", std::string(name), " ", axis.size,
                                                   " with an overlap of ", axis.overlap, " ", std::string(what)));
  };
  if (axis.size < 0 || axis.overlap < 0 || axis.overlap >= axis.size)
    return wrong("must overlap by less than the size");
  if (axis.size % factor != 0 || axis.overlap % factor != 0 || axis.size < 2 * factor) {
    return wrong(absl::StrCat("must be multiples of ", factor, ", the size at least two of them"));
  }
  return AxisTiling{.size = std::max(axis.size / factor, axis.overlap / factor + 1), .overlap = axis.overlap / factor};
}

}  // namespace kinora
