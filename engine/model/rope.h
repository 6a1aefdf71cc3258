// Rotary position tables in the split layout (docs/model.md "Positions"; ltx_core/model/transformer/rope.py). Computed
// on the host, once per stage.
#ifndef KINORA_ENGINE_MODEL_ROPE_H_
#define KINORA_ENGINE_MODEL_ROPE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kinora {

struct RopeShape {
  int64_t width = 0;                  // of q: all heads; the table has width / 2 angles per token
  std::vector<double> max_positions;  // divisor of each axis; positions / divisor is the fraction that is encoded
  double theta = 10000.0;
  bool double_precision = false;  // frequencies in float64, rounded once; otherwise in float32
};

// Angle of axis a and frequency k lies at column pad + k·axes + a; the `pad` first columns, what the axes do not fill,
// rotate nothing.
//   positions: [axes][tokens], the middle of each token's interval
//   cos, sin: [tokens, end − begin], columns [begin, end) of the table
// Fractions, products and angles are float32: they reach 1.6e4 rad, and the reference's rounding of them is part of the
// model.
void FillRopeTable(const RopeShape& shape, absl::Span<const std::vector<float>> positions, int64_t begin, int64_t end,
                   float* cos, float* sin);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_ROPE_H_
