#include "engine/processes/socket_mesh.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/processes/socket_communicator.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Mesh>> MakeSocketMesh(const MeshShape& shape, int rank, PeerLinks& links) {
  const auto make = [&links](MeshAxis axis, absl::Span<const int> members,
                             int own) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    const std::string name = absl::StrCat(std::string(MeshAxisName(axis)), "/", members[0], "/", members.size());
    KINORA_ASSIGN_OR_RETURN(std::vector<FileDescriptor> connections, links.Connect(name, members));
    return std::make_unique<SocketCommunicator>(own, std::move(connections));
  };
  return MakeMesh(shape, rank, make);
}

}  // namespace kinora
