// Runs one function on ranks that are forked processes, on a mesh of sockets, and hands back what each rank made.
#ifndef KINORA_TESTS_TESTING_PROCESS_RANKS_H_
#define KINORA_TESTS_TESTING_PROCESS_RANKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/processes/forked_ranks.h"
#include "engine/processes/peer_links.h"
#include "engine/processes/socket_mesh.h"

namespace kinora {

// Results in rank order. A rank that fails is a test failure. EXPECT inside body is not heard: it answers instead. For
// a test program that has no other thread at that time.
inline std::vector<std::string> RunSocketRanks(const MeshShape& shape,
                                               const std::function<absl::StatusOr<std::string>(const Mesh&)>& body) {
  const std::string key = DrawGroupKey();
  const auto ranks =
      ForkedRanks::Start(shape.ranks(), [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
        KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(rank, {.key = key}, rendezvous));
        KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeSocketMesh(shape, rank, *links));
        return body(*mesh);
      });
  std::vector<std::string> results;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    absl::StatusOr<std::string> result = (*ranks)->AwaitResult(rank);
    EXPECT_TRUE(result.ok()) << shape.ToString() << ", rank " << rank << ": " << result.status();
    results.push_back(result.value_or(""));
  }
  return results;
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_PROCESS_RANKS_H_
