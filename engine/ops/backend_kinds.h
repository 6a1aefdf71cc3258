// The backends that OpenBackend chooses from, each defined in a file that the build selects. Internal to this folder.
#ifndef KINORA_ENGINE_OPS_BACKEND_KINDS_H_
#define KINORA_ENGINE_OPS_BACKEND_KINDS_H_

#include "engine/ops/backend.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Backend>> OpenCpuBackend(const BackendOptions& options);
absl::StatusOr<BackendTraits> CpuTraits(const BackendOptions& options);
absl::StatusOr<std::string> CpuName(const BackendOptions& options);

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(const BackendOptions& options);
absl::StatusOr<BackendTraits> CudaTraits(const BackendOptions& options);
absl::StatusOr<std::string> CudaName(const BackendOptions& options);
// Whether OpenBackend("") opens cuda: a device is usable and not simulated.
bool CudaIsDefault();

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_BACKEND_KINDS_H_
