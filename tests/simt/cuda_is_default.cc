// Linked instead of engine/ops/cuda/cuda_is_default.cc: the simulated device is used only on request.
#include "engine/ops/backend_kinds.h"

namespace kinora {

bool CudaIsDefault() { return false; }

}  // namespace kinora
