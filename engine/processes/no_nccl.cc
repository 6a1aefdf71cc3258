// Linked instead of nccl_process_mesh.cc in a build without CUDA.
#include "engine/processes/cuda_process_mesh.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Mesh>> MakeCudaProcessMesh(const MeshShape&, const ProcessRank&) {
  return absl::UnimplementedError("device: cuda: not available in this build, which has the cpu only");
}

}  // namespace kinora
