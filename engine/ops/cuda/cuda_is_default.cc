// Of builds whose devices are real.
#include "engine/ops/backend_kinds.h"

namespace kinora {

bool CudaIsDefault() { return CudaName({}).ok(); }

}  // namespace kinora
