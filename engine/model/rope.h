// Rotary position tables in the split layout (docs/model.md "Positions"; ltx_core/model/transformer/rope.py).
#ifndef KINORA_ENGINE_MODEL_ROPE_H_
#define KINORA_ENGINE_MODEL_ROPE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kinora {

struct RopeShape {
  int64_t width = 0;                  // of q: all heads; the table has width / 2 angles per token
  std::vector<double> max_positions;  // per axis; the encoded fraction is position / max_position
  double theta = 10000.0;
  bool double_precision = false;  // frequencies in float64, rounded once; otherwise in float32
  bool operator==(const RopeShape&) const = default;
};

// Factors of the angles, on the host, for Ops::RopeTable.
struct RopeFactors {
  std::vector<float> fractions;    // [axes, tokens]: 2·position/maximum − 1
  std::vector<float> frequencies;  // [width / 2 / axes]
  int64_t pad = 0;                 // columns that do not rotate
};
// positions: [axes][tokens], the middle of each token's interval.
RopeFactors FactorsOfRope(const RopeShape& shape, absl::Span<const std::vector<float>> positions);

// Fills the columns [begin, end) of a table on the host. Column pad + k·axes + a holds the angle of axis a and
// frequency k. The first `pad` columns, which remain when width / 2 is divided by the axes, do not rotate.
//   positions: [axes][tokens], the middle of each token's interval
//   cos, sin: [tokens, end − begin]
// Fractions, products and angles are float32. Angles reach 1.6e4 rad, so the reference's rounding is part of the model.
void FillRopeTable(const RopeShape& shape, absl::Span<const std::vector<float>> positions, int64_t begin, int64_t end,
                   float* cos, float* sin);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_ROPE_H_
