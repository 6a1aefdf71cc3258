#include "engine/model/feed_forward.h"

#include "engine/base/status_macros.h"
#include "engine/parallel/redistribute.h"

namespace kinora {

absl::StatusOr<FeedForward> FeedForward::Load(WeightLoader weights, int64_t width, int64_t hidden, bool bias) {
  FeedForward ff;
  KINORA_ASSIGN_OR_RETURN(
      ff.up_, weights.LoadWeight({"net.0.proj"}, {.out = hidden, .in = width, .bias = bias, .split = Split::kRows}));
  KINORA_ASSIGN_OR_RETURN(
      ff.down_, weights.LoadWeight({"net.2"}, {.out = width, .in = hidden, .bias = bias, .split = Split::kColumns}));
  return ff;
}

void FeedForward::Forward(Exec& exec, const Tensor& x, const ResidualUpdate& update) const {
  ArenaScope temp(exec.arena);
  Tensor hidden = temp.Alloc(exec.dtype, {x.rows(), up_.out()});
  exec.ops.Matmul(x, up_, {.activation = Activation::kGeluTanh}, hidden);
  MatmulReducedThenNorms(exec, hidden, down_, update);
}

}  // namespace kinora
