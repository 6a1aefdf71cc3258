// Rotary positions on a grid of time, height and width (ltx_core/model/video_vae/transformer/rope_math.py): a head's
// pairs are divided among the axes, and pair i of an axis with n of them turns by position · 10000^(−i/n).
#ifndef KINORA_ENGINE_MODEL_AXIAL_ROPE_H_
#define KINORA_ENGINE_MODEL_AXIAL_ROPE_H_

#include <cstdint>

#include "engine/parallel/exec.h"

namespace kinora {

class AxialRope {
 public:
  struct Grid {
    int64_t frames = 0, height = 0, width = 0;
    int64_t first_column = 0;  // position of column 0 along the width
  };
  // Makes the tables in `scope`. head_width: a multiple of 8.
  AxialRope(Exec& exec, ArenaScope& scope, const Grid& grid, int64_t head_width);

  // The tables of rows [first · height · width, …) of the grid.
  Rope From(int64_t first) const;

  // How many of a head's pairs belong to each axis.
  struct Pairs {
    int64_t time, height, width;
  };
  static Pairs PairsOf(int64_t head_width);

 private:
  Rope tables_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AXIAL_ROPE_H_
