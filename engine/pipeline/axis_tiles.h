// Tiles along one axis: the arithmetic that the plans of all decoders and encoders share.
#ifndef KINORA_ENGINE_PIPELINE_AXIS_TILES_H_
#define KINORA_ENGINE_PIPELINE_AXIS_TILES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

struct CellInterval {
  int64_t begin, end, left_ramp, right_ramp;  // cells
};

// Tiles of `size` cells, size − overlap apart; the last ends at `length`. One tile if the length is at most `size`.
std::vector<CellInterval> SplitCells(int64_t length, int64_t size, int64_t overlap);

// Ones with a linear ramp at each end. A left ramp either starts at 0 or at the first step above it; a right ramp never
// reaches 0.
std::vector<float> Trapezoid(int64_t length, int64_t left, int64_t right, bool left_from_zero);

// Returns a size and overlap in cells of `factor` frames or pixels; one tile of `length` cells if both are 0. Fails
// with InvalidArgument, naming the axis, as PlanTiles does.
absl::StatusOr<AxisTiling> InCells(std::string_view name, const AxisTiling& axis, int64_t length, int64_t factor);

// Sets the sums of the masks. begin: the field that holds the position of a mask's first value.
void AddWeights(int64_t AxisTile::*begin, TilePlan* plan);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_AXIS_TILES_H_
