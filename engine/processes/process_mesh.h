// Makes the mesh of a rank that is a process, by its device: sockets between CPUs (socket_mesh.h), NCCL between CUDA
// devices (nccl_communicator.h).
#ifndef KINORA_ENGINE_PROCESSES_PROCESS_MESH_H_
#define KINORA_ENGINE_PROCESSES_PROCESS_MESH_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/parallel/mesh.h"
#include "engine/processes/abort_signal.h"
#include "engine/processes/peer_links.h"
#include "engine/processes/rendezvous.h"

namespace kinora {

// Identifies this process in its group.
struct ProcessRank {
  int rank = 0;
  Rendezvous& rendezvous;  // must be thread-safe and outlive the mesh
  AbortSignal& lost;       // aborts MakeProcessMesh; the rendezvous then fails too
  PeerOptions peer{};
};

// Called by every rank of the shape. Use the mesh, its backend and its pipeline on the calling thread; destroy the
// backend and the pipeline before the mesh. device: as for OpenBackend. With CUDA, rank r uses device r modulo the
// number of devices that this process sees, and makes it the thread's current one. Fails with InvalidArgument if the
// shape or the device is invalid, with Unimplemented if this build lacks the device, otherwise as MakeSocketMesh or
// MakeNcclMesh.
absl::StatusOr<std::unique_ptr<Mesh>> MakeProcessMesh(std::string_view device, const MeshShape& shape,
                                                      const ProcessRank& process);

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_PROCESS_MESH_H_
