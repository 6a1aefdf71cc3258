// Linked in a build with CUDA; no_nccl.cc otherwise.
#include <cuda_runtime.h>

#include "engine/base/status_macros.h"
#include "engine/ops/backend.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/processes/cuda_process_mesh.h"
#include "engine/processes/nccl_communicator.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Mesh>> MakeCudaProcessMesh(const MeshShape& shape, const ProcessRank& process) {
  KINORA_RETURN_IF_ERROR(DeviceName("cuda", {}).status());  // fails with a remedy if there is no device
  int devices = 0;
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&devices), "device: cuda"));
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(process.rank % devices), "a device for each rank"));
  return MakeNcclMesh(shape, process.rank, process.rendezvous, {.patience = process.peer.patience});
}

}  // namespace kinora
