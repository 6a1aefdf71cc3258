// Ranks that are processes: forks of the test, before it has threads of its own or has touched a device.
//   const auto results = RunForked(4, [](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> { … });
#ifndef KINORA_TESTS_TESTING_FORKED_RANKS_H_
#define KINORA_TESTS_TESTING_FORKED_RANKS_H_

#include <functional>
#include <string>
#include <vector>

#include "engine/processes/rendezvous.h"

namespace kinora {

using ForkedBody = std::function<absl::StatusOr<std::string>(int rank, Rendezvous& rendezvous)>;

// What each rank's body returned, in rank order; an EXPECT that failed in it makes it fail. A rank that a signal ends
// or stops (it is killed then) has Unavailable, and ends the rendezvous of the others, as the group's supervisor would.
// No rank lives longer than eight minutes.
std::vector<absl::StatusOr<std::string>> RunForked(int ranks, const ForkedBody& body);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FORKED_RANKS_H_
