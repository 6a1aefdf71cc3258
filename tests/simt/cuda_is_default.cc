// Linked in the place of engine/ops/cuda/cuda_is_default.cc: nobody gets a simulated device without asking for it.
#include "engine/ops/backend_kinds.h"

namespace kinora {

bool CudaIsDefault() { return false; }

}  // namespace kinora
