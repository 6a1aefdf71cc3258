// The backends that OpenBackend chooses from; each is defined in the file that is linked for it. Internal to this
// folder.
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
// Whether OpenBackend("") is cuda: if a device is usable, and is one.
bool CudaIsDefault();

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_BACKEND_KINDS_H_
