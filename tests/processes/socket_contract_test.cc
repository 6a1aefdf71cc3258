// Runs the communicator contract on ranks that are processes connected by sockets.
#include <gtest/gtest.h>

#include "engine/processes/peer_links.h"
#include "engine/processes/socket_mesh.h"
#include "engine/tensor/cpu_stream.h"
#include "tests/parallel/communicator_contract.h"
#include "tests/testing/forked_ranks.h"

namespace kinora {
namespace {

absl::StatusOr<std::string> BeRank(const MeshShape& shape, int number, const std::string& key, Rendezvous& rendezvous,
                                   const ContractBody& body) {
  std::vector<Buffer> buffers;
  CpuStream stream;
  KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(number, {.key = key}, rendezvous));
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeSocketMesh(shape, number, *links));
  const ContractRank rank(*mesh, stream, [&buffers](DType dtype, int64_t elements) {
    buffers.push_back(Buffer::Allocate(elements * DTypeSize(dtype) + 1).value());
    return buffers.back().View(dtype, {elements});
  });
  absl::StatusOr<std::string> result = body(rank);
  if (!result.ok()) mesh->Abort();
  return result;
}

RanksKind SocketRanks() {
  return {"Sockets", /*processes=*/true, [](const MeshShape& shape, const ContractBody& body) {
            const std::string key = DrawGroupKey();
            return RunForked(shape.ranks(), [&](int rank, Rendezvous& rendezvous) {
              return BeRank(shape, rank, key, rendezvous, body);
            });
          }};
}
INSTANTIATE_TEST_SUITE_P(Of, CommunicatorContract,
                         testing::Combine(testing::Values(SocketRanks()), testing::Values(2, 4, 8)), ContractName);

}  // namespace
}  // namespace kinora
