// Linked into builds with real devices; builds with the simulated device link tests/simt/cuda_is_default.cc.
#include "engine/ops/backend_kinds.h"

namespace kinora {

bool CudaIsDefault() { return CudaName({}).ok(); }

}  // namespace kinora
