// Runs a function on ranks that are forked processes of a test, before it has threads of its own or has touched a
// device, and hands back what each made.
//   const auto results = RunForked(4, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> { … });
#ifndef KINORA_TESTS_TESTING_FORKED_RANKS_H_
#define KINORA_TESTS_TESTING_FORKED_RANKS_H_

#include <string>
#include <vector>

#include "engine/processes/forked_ranks.h"

namespace kinora {

// What each rank's body returned, in rank order; an EXPECT that failed in it makes it fail. A rank that a signal stops
// is killed. No rank lives longer than eight minutes.
std::vector<absl::StatusOr<std::string>> RunForked(int ranks, const ForkedRanks::Body& body);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FORKED_RANKS_H_
