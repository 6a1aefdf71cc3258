// Linked instead of the folder cuda in builds without CUDA.
#include "engine/ops/backend_kinds.h"

namespace kinora {
namespace {

absl::Status NotInThisBuild() {
  return absl::UnimplementedError("device: cuda: not available in this build, which has the cpu only");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(const BackendOptions&) { return NotInThisBuild(); }
absl::StatusOr<std::string> CudaName(const BackendOptions&) { return NotInThisBuild(); }
bool CudaIsDefault() { return false; }

}  // namespace kinora
