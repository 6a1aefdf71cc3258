// Runs a function on the ranks of a mesh, one thread each, and returns each rank's result.
//   for (int ranks : {2, 4}) EXPECT_EQ(RunRanks<Floats>({.tokens = ranks}, forward)[0], RunRanks<Floats>({.tokens = 1},
//   forward)[0]);
#ifndef KINORA_TESTS_TESTING_RANKS_H_
#define KINORA_TESTS_TESTING_RANKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "engine/parallel/thread_communicator.h"

namespace kinora {

// Returns results in rank order. If a rank fails, the test fails and the other ranks end. EXPECT works inside `body`,
// ASSERT does not.
template <typename T>
std::vector<T> RunRanks(const MeshShape& shape, const std::function<absl::StatusOr<T>(const Mesh&)>& body) {
  std::vector<T> results(shape.ranks());
  const absl::Status status = RunThreadRanks(shape, [&](const Mesh& mesh) {
    absl::StatusOr<T> result = body(mesh);
    if (result.ok()) results[mesh.world().rank()] = std::move(*result);
    return result.status();
  });
  EXPECT_TRUE(status.ok()) << shape.ToString() << ": " << status.ToString();
  return results;
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_RANKS_H_
