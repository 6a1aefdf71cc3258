// Runs a function on ranks that are forked processes and returns their results. Call it before the test creates threads
// or uses a device.
//   const auto results = RunForked(4, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> { … });
#ifndef KINORA_TESTS_TESTING_FORKED_RANKS_H_
#define KINORA_TESTS_TESTING_FORKED_RANKS_H_

#include <string>
#include <vector>

#include "engine/processes/forked_ranks.h"

namespace kinora {

// Returns each rank's result, in rank order; a rank with a failed EXPECT returns an error. Kills ranks that a signal
// has stopped, and every rank after eight minutes.
std::vector<absl::StatusOr<std::string>> RunForked(int ranks, const ForkedRanks::Body& body);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FORKED_RANKS_H_
