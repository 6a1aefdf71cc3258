// The dispatcher, queue, hub and job records in a simulated world with faults. To try other seeds, or to repeat one:
//
//   KINORA_SIMULATION_SEEDS=FIRST+COUNT frontend_simulation_test
#include "tests/server/frontend/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/logging.h"

namespace kinora::simulation {
namespace {

TEST(Simulation, EveryInvariantHoldsAndEveryJobEnds) {
  SetLogOptions({.minimum = Severity::kError});
  uint64_t first = 1, count = 1000;
  if (const char* seeds = std::getenv("KINORA_SIMULATION_SEEDS")) {
    const std::vector<std::string> parts = absl::StrSplit(seeds, '+');
    ASSERT_TRUE(parts.size() == 2 && absl::SimpleAtoi(parts[0], &first) && absl::SimpleAtoi(parts[1], &count))
        << "KINORA_SIMULATION_SEEDS=" << seeds << ", not FIRST+COUNT";
  }
  int64_t events = 0, jobs = 0, faults = 0, resumed = 0, interrupted = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const SimulationResult result = Simulation(seed).Run();
    ASSERT_EQ(result.failure, "") << result.notes << "\nrepeat it:\n  KINORA_SIMULATION_SEEDS=" << seed
                                  << "+1 build/release/tests/server/frontend/frontend_simulation_test";
    events += result.events, jobs += result.jobs, faults += result.faults;
    resumed += result.resumed, interrupted += result.interrupted;
  }
  RecordProperty("events", std::to_string(events));
  RecordProperty("jobs", std::to_string(jobs));
  RecordProperty("faults", std::to_string(faults));
  RecordProperty("resumed", std::to_string(resumed));
  RecordProperty("interrupted", std::to_string(interrupted));
  if (count < 100) return;  // few seeds may have none
  EXPECT_GT(resumed, jobs / 20);
  EXPECT_GT(interrupted, jobs / 100);
}

TEST(Simulation, ASeedRepeatsItself) {
  SetLogOptions({.minimum = Severity::kError});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const SimulationResult once = Simulation(seed).Run(), again = Simulation(seed).Run();
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
    EXPECT_EQ(once.digest, again.digest) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kinora::simulation
