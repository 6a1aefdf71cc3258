// A frontend without sockets: the real dispatcher, queue, event hub and lease on simulated executors.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FRONTEND_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FRONTEND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/frontend/groups/dispatcher.h"
#include "server/frontend/groups/resume_files.h"
#include "server/frontend/jobs/event_source.h"
#include "server/frontend/jobs/frontend_lease.h"
#include "server/frontend/jobs/housekeeper.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/shared_events.h"
#include "tests/server/frontend/simulation/sim_database.h"
#include "tests/server/frontend/simulation/sim_group.h"
#include "tests/server/frontend/simulation/sim_store.h"

namespace kinora::simulation {

class SimFrontend {
 public:
  struct Options {
    std::string name;
    bool alone = true;  // on its store: what an earlier process has left is free at once
    absl::Duration preempt_after = absl::ZeroDuration();
    absl::Duration skew = absl::ZeroDuration();  // of its date against the store's
    std::vector<SimGroup*> groups;
  };
  SimFrontend(World& world, Ledger& ledger, Database& database, SimFiles& files, Options options)
      : world_(world), ledger_(ledger), database_(database), files_(files), options_(std::move(options)) {}
  ~SimFrontend() { Crash(); }

  void Start();
  void Crash();  // nothing that it had in memory remains
  void Drain();  // as SIGTERM: Crash follows once it is done
  FrontendId id() const { return process_ == nullptr ? "" : process_->id; }
  bool running() const { return process_ != nullptr; }
  bool serving() const { return process_ != nullptr && process_->serving; }

  // As the calls of its API. Only while serving; no answer comes if it crashes first.
  void Create(const v1::CreateVideoRequest& request, Done<Created> done);
  void Cancel(const JobId& id, Done<v1::Video> done);
  EventSource& events() { return *process_->events; }
  // Since when it has served with all that it needs; infinite future: it does not.
  absl::Time well_since() const { return health_.well_since; }
  const std::vector<SimGroup*>& groups() const { return options_.groups; }

  // Faults
  void Pause(absl::Duration duration, bool at_claim);  // at_claim: once it has claimed a job, before it knows
  void FailStore(absl::Duration duration);
  void LoseAnswers(absl::Duration duration);  // of the store

  void SetCrashListener(std::function<void()> listener) { on_crash_ = std::move(listener); }  // before it is gone

 private:
  struct Process {
    Process(World& world, Ledger& ledger, Database& database, SimFiles& files, const Options& options, FrontendId id);
    const FrontendId id;
    StoreConnection store;
    EventHub hub;
    SteppingDate date;
    std::unique_ptr<EventSource> events;
    SharedEvents* shared = nullptr;  // the same, unless alone
    JobQueue queue;
    std::vector<SimExecutor*> loops;
    std::unique_ptr<ResumeFiles> points;
    std::unique_ptr<Dispatcher> dispatcher;
    std::unique_ptr<Housekeeper> housekeeper;
    std::unique_ptr<FrontendLease> lease;
    bool serving = false;
  };
  void Hear(const v1::VideoEvent& event);  // news from the store
  void Recover(const std::vector<UnfinishedJob>& jobs);
  void RecoverOne(const UnfinishedJob& job);

  World& world_;
  Ledger& ledger_;
  Database& database_;
  SimFiles& files_;
  const Options options_;
  int starts_ = 0;
  FrontendHealth health_;
  void NotWellFor(absl::Duration duration);
  std::function<void()> on_crash_;
  std::unique_ptr<Process> process_;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FRONTEND_H_
