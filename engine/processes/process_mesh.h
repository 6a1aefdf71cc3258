// The mesh of a rank that is a process, by the device it computes on: sockets between CPUs (socket_mesh.h), NCCL
// between CUDA devices (nccl_communicator.h).
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

// Who this process is among those of its group.
struct ProcessRank {
  int rank = 0;
  Rendezvous& rendezvous;  // thread-safe, and outlives the mesh
  AbortSignal& lost;       // ends the making of the mesh; the rendezvous fails then too
  PeerOptions peer{};
};

// Every rank of the shape makes its own, and uses it, its backend and its pipeline on the calling thread; they end
// before the mesh. device: as OpenBackend takes it. With CUDA, rank r computes on the (r modulo their number)-th of the
// devices that this process sees, which becomes the thread's current one. InvalidArgument: the shape or the device;
// else as MakeSocketMesh or MakeNcclMesh; Unimplemented: not in this build.
absl::StatusOr<std::unique_ptr<Mesh>> MakeProcessMesh(std::string_view device, const MeshShape& shape,
                                                      const ProcessRank& process);

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_PROCESS_MESH_H_
