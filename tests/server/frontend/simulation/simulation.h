// Frontends on one store, their groups and clients, and faults for some minutes; then none, until every job has ended.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIMULATION_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIMULATION_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/server/frontend/simulation/sim_client.h"

namespace kinora::simulation {

struct SimulationResult {
  std::string failure;  // empty: every invariant held, and every job ended
  std::string notes;    // the last things that happened before it
  uint64_t digest = 0;  // of all that happened
  int64_t events = 0, jobs = 0, faults = 0, resumed = 0, interrupted = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  ~Simulation();
  SimulationResult Run();

 private:
  std::vector<std::vector<SimGroup*>> MakeGroups(int frontends);
  void Fault();
  void FaultOf(SimFrontend& frontend);
  void CheckIdleGroups();
  void CheckInterruption();
  void CheckLostRuns();
  void CheckClaims(absl::Time since);
  void KeepUp(SimFrontend& frontend);
  bool Done() const;

  World world_;
  Ledger ledger_;
  Database database_;
  SimFiles files_;
  std::vector<std::unique_ptr<SimGroup>> groups_;
  std::vector<std::unique_ptr<SimFrontend>> frontends_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  absl::Time faults_until_;
  int64_t faults_ = 0;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIMULATION_H_
