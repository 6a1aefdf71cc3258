// The mesh of a rank that is a process on the CPU.
#ifndef KINORA_ENGINE_PROCESSES_SOCKET_MESH_H_
#define KINORA_ENGINE_PROCESSES_SOCKET_MESH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/parallel/mesh.h"
#include "engine/processes/peer_links.h"

namespace kinora {

// Called by every rank of a valid shape. Fails as PeerLinks::Connect.
absl::StatusOr<std::unique_ptr<Mesh>> MakeSocketMesh(const MeshShape& shape, int rank, PeerLinks& links);

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_SOCKET_MESH_H_
