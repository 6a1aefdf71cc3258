// MakeProcessMesh for CUDA: nccl_process_mesh.cc, or no_nccl.cc in a build without CUDA. Internal to this folder.
#ifndef KINORA_ENGINE_PROCESSES_CUDA_PROCESS_MESH_H_
#define KINORA_ENGINE_PROCESSES_CUDA_PROCESS_MESH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/processes/process_mesh.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Mesh>> MakeCudaProcessMesh(const MeshShape& shape, const ProcessRank& process);

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_CUDA_PROCESS_MESH_H_
