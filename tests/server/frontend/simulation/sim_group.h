// The processes of a worker group, their streams to the frontend, and what starts them again.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_GROUP_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_GROUP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinora/v1/worker.pb.h"
#include "server/frontend/groups/dispatcher.h"
#include "tests/server/frontend/simulation/ledger.h"
#include "tests/server/frontend/simulation/sim_files.h"
#include "tests/server/frontend/simulation/world.h"

namespace kinora::simulation {

// One rank's stream. Messages arrive in order, each a random time later.
class SimLink : public RankLink {
 public:
  SimLink(World& world, std::function<void(const v1::FrontendMessage&)> receive, std::function<void()> closed)
      : world_(world), receive_(std::move(receive)), closed_(std::move(closed)) {}

  void Send(v1::FrontendMessage message) override;
  void Close(const absl::Status& status) override;
  // The time at which the next message to the frontend arrives.
  absl::Time Arrival();
  // The rank is gone or its frontend is: nothing arrives at it any more.
  void Break() { open_ = false; }
  bool open() const { return open_; }

 private:
  World& world_;
  std::function<void(const v1::FrontendMessage&)> receive_;
  std::function<void()> closed_;
  std::weak_ptr<SimLink> self_;
  absl::Time to_rank_ = absl::InfinitePast(), to_frontend_ = absl::InfinitePast();
  bool open_ = true;
  friend class SimGroup;
};

class SimGroup {
 public:
  struct Options {
    std::string id;
    int ranks = 1;
    bool supervised = true;                // started by the frontend
    std::function<void()> on_interrupted;  // a run was told to store its state and stop, by a frontend that is well
  };
  static constexpr char kModel[] = "tiny", kCommit[] = "c0ffee", kProtocol[] = "words";

  SimGroup(World& world, Ledger& ledger, SimFiles& files, Options options)
      : world_(world), ledger_(ledger), files_(files), options_(std::move(options)), ranks_(options_.ranks) {}

  const std::string& id() const { return options_.id; }
  // A frontend takes ranks now, until FrontendGone.
  void FrontendUp(Dispatcher& dispatcher, const FrontendHealth& health);
  void FrontendGone();
  // The frontend has lost this incarnation: a supervisor ends its processes.
  void OnLost(const std::string& incarnation);

  // Since when it could run a job; infinite future: it cannot.
  absl::Time idle_since() const;

  // Faults
  void KillRank(int rank);
  void Stall(absl::Duration duration);    // it computes nothing
  void Silence(absl::Duration duration);  // a rank's process is stopped
  void FillDisk(absl::Duration duration) { disk_full_until_ = world_.now() + duration; }

 private:
  struct Rank {
    bool alive = false, ready = false, cancelled = false, keeps_state = false;
    std::shared_ptr<SimLink> link;
    std::optional<v1::Run> run;
  };
  void Launch();
  void Join(int rank);
  void Receive(int rank, const v1::FrontendMessage& message);
  void Send(int rank, v1::WorkerMessage message);
  void Exit(int rank);
  void Beat(int rank);
  void LaunchIfAllEnded();
  void BeginRun();
  void Compute(int64_t run, int done, int resumed);
  int Resumed();             // steps that an earlier attempt has computed
  bool DiesOfItsPoint();     // the state that it was to continue from has ended it
  absl::Status End() const;  // how a run that is complete ends
  void EndStep(int step);
  void StoreState(int step);
  void EndRun(const absl::Status& status);
  void SendStage(v1::StageKind stage, int steps);
  // Runs `task` later unless the processes have been started again.
  void Later(absl::Duration least, absl::Duration most, World::Task task);

  World& world_;
  Ledger& ledger_;
  SimFiles& files_;
  const Options options_;
  Dispatcher* frontend_ = nullptr;
  const FrontendHealth* health_ = nullptr;  // of frontend_
  std::vector<Rank> ranks_;
  int64_t launches_ = 0, runs_ = 0, units_ = 0;
  bool launching_ = false;
  absl::Time free_since_;  // of its last run, or its load
  absl::Time stalled_until_ = absl::InfinitePast(), silent_until_ = absl::InfinitePast();
  absl::Time disk_full_until_ = absl::InfinitePast();
  std::optional<v1::Run> run_;  // that all ranks compute
  int steps_ = 0, points_ = 0;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_GROUP_H_
