// Assigns jobs to worker groups: claims a waiting job for an idle group, follows its run, and stores the outcome. It
// alone owns running jobs and groups. Everything that happens to them (a worker's message, a lost process, a cancel, a
// deadline, a commit of the store) is an event on one loop, handled in order by one thread that never blocks.
//
//   group lost (process, heartbeat, watchdog)  → Requeue, counted: the store ends the job at the limit
//   drain, a loss during it, admin restart,
//   frontend ended, a rank told to leave       → Requeue, not counted
//   cancel                                     → the run ends at its next step → CANCELLED
//   deadline passed                            → the same → FAILED, DEADLINE_EXCEEDED
//   run ended with an error                    → FAILED with that error
//   artifacts durable                          → COMPLETED
#ifndef KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_H_
#define KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/build_version.h"
#include "server/frontend/groups/join_rules.h"
#include "server/frontend/groups/worker_group.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/work_queue.h"
#include "server/net/executor.h"

namespace kinora {

class ArtifactIntake;
class InputSupply;
class ResumeFiles;
struct FrontendMetrics;

struct DispatcherOptions {
  FrontendId owner;  // of leases
  absl::Duration lease = absl::Seconds(30);
  std::string artifact_directory;  // absolute; sent to workers of this machine. "": they send artifacts to `intake`
  GroupLimits limits;              // heartbeats and watchdog
  BuildIdentity identity;          // of this frontend; workers must match it
  // Receives artifacts from ranks that join at the port. Must outlive the dispatcher. Null (tests): there are none.
  ArtifactIntake* intake = nullptr;
  InputSupply* inputs = nullptr;                        // likewise, sends inputs to such ranks
  ResumeFiles* points = nullptr;                        // likewise; null: resume points are refused
  absl::Duration preempt_after = absl::ZeroDuration();  // FrontendConfig.preempt_after_seconds
  // How often it reads what other frontends have committed to the store (dispatcher_sharing.h). Zero: it is alone.
  absl::Duration look_interval = absl::ZeroDuration();
  // Whether other frontends may take a job whose lease is over, so that this one stops a run before. False: it reads
  // the store for its own changes whose answers were lost.
  bool ends_runs_with_leases = true;
  // Whether an awaited group that is not here has joined another frontend. Null: there is none.
  std::function<void(const std::string& group, Done<bool> done)> is_elsewhere{};
  // Estimates by the groups of other frontends, for models that no group here has. is_job: as EstimateShape. Null:
  // there are none.
  std::function<void(const std::string& model, const v1::Generation& effective, bool is_job, Done<v1::Estimate> done)>
      estimate_elsewhere{};
  // Models of groups that joined an earlier frontend. A job may wait for parts that only they have, as after a loss.
  std::vector<v1::ModelInfo> known_models{};
};

// Time for a LoRA whose file is being replaced to be listed by its group again.
constexpr absl::Duration kLoraComesBack = absl::Seconds(10);
inline std::string LoraOfModel(const std::string& model, const std::string& lora) { return model + "\n" + lora; }

struct GroupsHealth {
  bool ready = false;                  // at least one group takes or runs jobs
  bool failed = false;                 // there are groups, but none will be ready without an operator
  bool loading = false;                // no group is ready, and one joins or loads
  std::map<std::string, bool> groups;  // whether each is ready
  std::set<std::string> models;        // of the ready groups
  std::string absent;                  // about the others: "group a is joining (waiting for rank 1 of 2); …"
  // Steady time at which a group stopped listing a LoRA, by LoraOfModel. Kept for at least kLoraComesBack.
  std::map<std::string, absl::Time> gone_loras;
  bool operator==(const GroupsHealth&) const = default;
};

class Dispatcher {
 public:
  // None is owned; all must outlive the dispatcher. `metrics` may be null (tests).
  // loop: where everything happens, with the time of clocks.steady; null: an EventLoop.
  Dispatcher(JobStore& store, CatalogueStore& catalogue, WorkQueue& queue, EventHub& hub, Clocks clocks,
             FrontendMetrics* metrics, DispatcherOptions options, std::unique_ptr<Executor> loop = nullptr);
  ~Dispatcher();  // call Drain first: otherwise running jobs keep their leases, as after a crash
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Takes over a job from JobStore::Unfinished at the start, or from JobStore::LostRuns. A run whose lease is over, by
  // the store's clock, is requeued first (not counted); a run with a lease is left alone. `done` runs once the job is
  // queued or ended.
  void Recover(const UnfinishedJob& job, Finished done);

  // All of the following: any thread, never block; `done` runs on the dispatcher's thread and must not block.
  void CancelRun(const JobId& id);  // after JobStore::Cancel: stops the run now, not at the next renewal
  void LookAtStore();               // now, for news from another frontend; not only at the next look_interval
  void LookForWork();               // likewise, if a group is idle
  enum class Asks { kAnyGroup, kGroupsHere };  // whether groups of other frontends are asked, too
  void Estimate(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done,
                Asks asks = Asks::kAnyGroup);
  // The same for a job that is being created: answered from known estimates of this shape; rank 0 is asked only once
  // per shape. `effective` in the answer has no prompts. DeadlineExceeded: rank 0 has not answered within 2 s.
  void EstimateShape(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done,
                     Asks asks = Asks::kAnyGroup);
  void ListGroups(Done<std::vector<v1::WorkerGroup>> done);
  void DrainGroup(const std::string& id, Done<v1::WorkerGroup> done);    // NotFound
  void RestartGroup(const std::string& id, Done<v1::WorkerGroup> done);  // NotFound

  // Claims no more jobs, gives running jobs `grace` to end, requeues the rest (not counted) and tells all workers to
  // leave. Call it once, after WorkQueue::Close. The store has `kStorePatience` to requeue; the jobs of a store that
  // takes longer are requeued at the next start.
  static constexpr absl::Duration kStorePatience = absl::Seconds(5);
  void BeginDrain(absl::Duration grace, std::function<void()> drained);
  void Drain(absl::Duration grace);  // blocks until then

  // Reports health on the dispatcher's thread: the present state first, then every change.
  using HealthListener = std::function<void(const GroupsHealth&)>;
  void SetHealthListener(HealthListener listener);
  // Called when a group is lost, so that a supervisor can kill and restart its processes. For a group without a
  // supervisor only the ranks' streams are closed.
  using LossListener =
      std::function<void(const std::string& group, const std::string& incarnation, const std::string& why)>;
  void SetLossListener(LossListener listener);  // applies to losses from now on

  // Called to restart a group that is not here because its processes pause or have not joined: its supervisor starts
  // them again. Returns false if the group has no supervisor.
  using RestartListener = std::function<bool(const std::string& group)>;
  void SetRestartListener(RestartListener listener);

  // Marks the group as supervised: from now on only processes with `secret` can join, as ranks of `incarnation`. With
  // an empty secret none can. A supervisor calls this before it starts the processes; it is also called once before
  // anyone can join.
  void Supervise(const std::string& group, const std::string& incarnation, const std::string& secret);
  // The supervisor stops restarting the group until its files change or an operator restarts it. Its state becomes
  // "failed", with the reason of its last loss.
  void GiveUp(const std::string& group);
  // Expects a group of `processes` ranks that this frontend does not start. If it has not joined within
  // limits.join_timeout, that is logged; until it joins it is listed and reported as not ready. Call it before anyone
  // can join.
  void Await(const std::string& group, int processes);
  // Called by the Join stream of a rank (join_service.h) and by the supervisor. A rank that may not join (join_rules.h)
  // is rejected without harm to the others. Join and Receive end with RankLink::ReadOn, so that messages of a rank do
  // not pile up.
  void Join(const v1::Hello& hello, std::shared_ptr<RankLink> link, Entrance entrance = Entrance::kLocalSocket);
  void Receive(std::shared_ptr<RankLink> link, v1::WorkerMessage message);
  void Disconnect(std::shared_ptr<RankLink> link, absl::Status why);
  void ProcessEnded(const std::string& group, const std::string& incarnation, const std::string& why);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // the store's callbacks hold weak references: they may outlive the dispatcher
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_H_
