// How weights lie on the device, and their way there.
#include "engine/ops/cuda/cuda_weight.h"

namespace kinora {}  // namespace kinora
