// A client that creates one job, watches it to its end through crashes of frontends, and sometimes cancels it.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_CLIENT_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_CLIENT_H_

#include <memory>
#include <vector>

#include "server/frontend/jobs/job_watch.h"
#include "tests/server/frontend/simulation/sim_frontend.h"

namespace kinora::simulation {

class SimClient {
 public:
  SimClient(World& world, Ledger& ledger, std::vector<SimFrontend*> frontends, int number);

  bool ended() const { return ended_ || lost_; }  // it has seen the end of its job, or was lost with its frontend
  void FrontendGone(const SimFrontend& frontend);

 private:
  SimFrontend* AnyFrontend();  // that serves; null if none does
  void Create();
  void OnCreated(const absl::StatusOr<Created>& created);
  void Watch();
  void Pump();
  void See(const v1::VideoEvent& event);
  void EndWatch();
  void Cancel();

  World& world_;
  Ledger& ledger_;
  const std::vector<SimFrontend*> frontends_;
  v1::CreateVideoRequest request_;
  JobId id_;
  bool cancels_ = false, ended_ = false;
  bool tied_ = false, lost_ = false;  // tied_: the job ends with it
  int64_t last_sequence_ = 0;
  SimFrontend* watched_ = nullptr;
  std::shared_ptr<JobWatch> watch_;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_CLIENT_H_
