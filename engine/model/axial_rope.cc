#include "engine/model/axial_rope.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kinora {
namespace {

using Floats = std::vector<float>;

struct CosSin {
  Floats cos, sin;
};

// [count, pairs]: of positions first, first + 1, …
CosSin AxisTable(int64_t first, int64_t count, int64_t pairs) {
  CosSin table{.cos = Floats(count * pairs), .sin = Floats(count * pairs)};
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const double exponent = static_cast<double>(2 * pair) / static_cast<double>(2 * pairs);
    const auto frequency = static_cast<float>(1.0 / std::pow(10000.0, exponent));
    for (int64_t i = 0; i < count; ++i) {
      const float angle = static_cast<float>(first + i) * frequency;
      table.cos[i * pairs + pair] = std::cos(angle);
      table.sin[i * pairs + pair] = std::sin(angle);
    }
  }
  return table;
}

// Rows of a frame: nothing for the time, then the row's angles, then the column's.
Floats Plane(const AxialRope::Grid& grid, const AxialRope::Pairs& pairs, const Floats& rows, const Floats& columns) {
  const int64_t half = pairs.time + pairs.height + pairs.width;
  Floats plane(grid.height * grid.width * half);
  for (int64_t i = 0; i < grid.height * grid.width; ++i) {
    float* const to = plane.data() + i * half + pairs.time;
    std::copy_n(rows.data() + i / grid.width * pairs.height, pairs.height, to);
    std::copy_n(columns.data() + i % grid.width * pairs.width, pairs.width, to + pairs.height);
  }
  return plane;
}

}  // namespace

AxialRope::Pairs AxialRope::PairsOf(int64_t head_width) {
  int64_t time = head_width / 4 / 2 * 2;
  if ((head_width - time) / 2 % 2 != 0) time -= 2;
  const int64_t space = (head_width - time) / 2;
  return {.time = time / 2, .height = space / 2, .width = space / 2};
}

AxialRope::AxialRope(Exec& exec, ArenaScope& scope, const Grid& grid, int64_t head_width) {
  const Pairs pairs = PairsOf(head_width);
  const int64_t positions = grid.height * grid.width, half = head_width / 2;
  tables_ = {.cos = scope.Alloc(DType::kF32, {positions, half}),
             .sin = scope.Alloc(DType::kF32, {positions, half}),
             .frame_cos = scope.Alloc(DType::kF32, {grid.frames, pairs.time}),
             .frame_sin = scope.Alloc(DType::kF32, {grid.frames, pairs.time})};
  const auto upload = [&](const Floats& from, const Tensor& to) { exec.ops.stream().CopyFromHost(from.data(), to); };
  CosSin time, rows, columns;
  if (!exec.ops.dry()) {
    time = AxisTable(0, grid.frames, pairs.time);
    rows = AxisTable(0, grid.height, pairs.height);
    columns = AxisTable(grid.first_column, grid.width, pairs.width);
  }
  upload(time.cos, tables_.frame_cos);
  upload(time.sin, tables_.frame_sin);
  upload(exec.ops.dry() ? Floats() : Plane(grid, pairs, rows.cos, columns.cos), tables_.cos);
  upload(exec.ops.dry() ? Floats() : Plane(grid, pairs, rows.sin, columns.sin), tables_.sin);
}

Rope AxialRope::From(int64_t first) const {
  Rope rope = tables_;
  const int64_t frames = rope.frame_cos.rows();
  rope.frame_cos = rope.frame_cos.Rows(first, frames);
  rope.frame_sin = rope.frame_sin.Rows(first, frames);
  return rope;
}

}  // namespace kinora
