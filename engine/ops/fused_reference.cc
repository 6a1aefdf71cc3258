// The definitions of the fused ops. A backend's override is tested against these on the same object.
#include "engine/ops/ops.h"

namespace kinora {

void Ops::ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  RmsNorm(x, /*weight=*/nullptr, eps, Activation::kNone, out);
  Modulate(out, m, out);
}

void Ops::ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  LayerNorm(x, eps, out);
  Modulate(out, m, out);
}

void Ops::QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) {
  NormRope(q, q_params, nullptr);
  NormRope(k, k_params, nullptr);
}

}  // namespace kinora
