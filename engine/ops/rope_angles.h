// The host's definition of Ops::RopeTable.
#ifndef KINORA_ENGINE_OPS_ROPE_ANGLES_H_
#define KINORA_ENGINE_OPS_ROPE_ANGLES_H_

#include <cstdint>

#include "engine/ops/op_params.h"

namespace kinora {

// Fills rows [begin, end) of cos and sin, which are in host memory like the tensors of `angles`.
void FillRopeRows(const RopeAngles& angles, int64_t begin, int64_t end, const Tensor& cos, const Tensor& sin);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_ROPE_ANGLES_H_
