#include "engine/parallel/mesh.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/parallel/single_communicator.h"

namespace kinora {

std::string MeshShape::ToString() const {
  if (ranks() == 1) return "1 rank";
  std::vector<std::string> parts;
  if (guidance > 1) parts.push_back(absl::StrCat("guidance=", guidance));
  if (tokens > 1) parts.push_back(absl::StrCat("tokens=", tokens));
  if (tensor > 1) parts.push_back(absl::StrCat("tensor=", tensor));
  return absl::StrJoin(parts, ",");
}

std::unique_ptr<Mesh> Mesh::Single() {
  return std::make_unique<Mesh>(MeshShape{}, std::make_unique<SingleCommunicator>(),
                                std::make_unique<SingleCommunicator>(), std::make_unique<SingleCommunicator>(),
                                std::make_unique<SingleCommunicator>());
}

}  // namespace kinora
