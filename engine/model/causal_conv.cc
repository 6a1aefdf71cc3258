#include "engine/model/causal_conv.h"

#include <string>

#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<CausalConv> CausalConv::Load(WeightLoader& weights, std::string_view name, const Options& options) {
  CausalConv result;
  KINORA_ASSIGN_OR_RETURN(
      result.weight_,
      weights.LoadConv(
          std::string(name) + ".conv",
          {.out = options.out, .in = options.in, .kernel = {3, 3, 3}, .order = options.order, .kept = options.kept}));
  const Padding space = options.padding == SpatialPadding::kReflect ? Padding::kReflect : Padding::kZeros;
  result.conv_.time = {.kernel = 3,
                       .before = (options.causal ? 2 : 1) + (options.repeat_first ? 1 : 0),
                       .after = options.causal ? 0 : 1,
                       .padding = Padding::kReplicate};
  result.conv_.height = result.conv_.width = {.kernel = 3, .before = 1, .after = 1, .padding = space};
  return result;
}

void CausalConv::Forward(Exec& exec, const Tensor& x, Accumulate accumulate, Tensor out) const {
  ConvOptions options = conv_;
  options.accumulate = accumulate;
  exec.ops.Conv(x, weight_, options, out);
}

}  // namespace kinora
