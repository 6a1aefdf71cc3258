// Linked into builds with real devices; builds with the simulated device link tests/simt/cuda_is_default.cc.
#include <cuda_runtime.h>

#include <mutex>
#include <string>

#include "engine/base/logging.h"
#include "engine/ops/backend_kinds.h"

namespace kinora {

bool CudaIsDefault() {
  const absl::Status status = CudaName({}).status();
  if (status.ok()) return true;
  // Without a device the CPU is what is meant; beside a device that cannot be used it is probably a surprise.
  int count = 0;
  static std::once_flag once;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    std::call_once(once, [&] { Log(Severity::kWarning, "cuda_unusable", {{"why", std::string(status.message())}}); });
  }
  return false;
}

}  // namespace kinora
