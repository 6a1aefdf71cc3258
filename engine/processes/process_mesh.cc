#include "engine/processes/process_mesh.h"

#include "engine/base/status_macros.h"
#include "engine/ops/backend.h"
#include "engine/processes/cuda_process_mesh.h"
#include "engine/processes/socket_mesh.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Mesh>> MakeProcessMesh(std::string_view device, const MeshShape& shape,
                                                      const ProcessRank& process) {
  KINORA_RETURN_IF_ERROR(shape.Validate());
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(device, {}));
  if (traits.device == "cuda") return MakeCudaProcessMesh(shape, process);
  KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(process.rank, process.peer, process.rendezvous));
  const AbortSignal::Listener lost(process.lost, [&links = *links] { links.Abort(); });
  return MakeSocketMesh(shape, process.rank, *links);  // destroying the links afterwards closes the port
}

}  // namespace kinora
