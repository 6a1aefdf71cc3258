// Brings jobs and worker groups together: claims a waiting job for an idle group, follows its run, and writes down how
// it ended. The one owner of running jobs and of groups: whatever happens to them (a worker's message, a lost process,
// a cancel, a deadline, a commit of the store) is an event on one loop, handled in order on one thread that never
// blocks.
//
//   group lost (process, heartbeat, watchdog)  → Requeue, counted: the store ends the job at the limit
//   drain, admin restart, frontend gone,
//   a rank leaves because it was told to       → Requeue, not counted
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
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

class ArtifactIntake;
class InputSupply;
struct FrontendMetrics;

struct DispatcherOptions {
  std::string owner;  // of leases; the same after a restart on the same state directory: own leases are void then
  absl::Duration lease = absl::Seconds(30);
  std::string artifact_directory;  // absolute; told to workers
  GroupLimits limits;              // heartbeats and watchdog
  BuildIdentity identity;          // of this frontend; what workers must agree with
  // Of artifacts from ranks that join at the port, which outlives the dispatcher. Null (tests): none come.
  ArtifactIntake* intake = nullptr;
  InputSupply* inputs = nullptr;  // likewise, of inputs for such ranks
  // Of groups that joined a frontend before this one: a job may wait for what only they have as after a loss.
  std::vector<v1::ModelInfo> known_models{};
};

struct GroupsHealth {
  bool ready = false;                  // at least one group takes or runs jobs
  bool failed = false;                 // there are groups, and none will be ready before an operator does something
  bool loading = false;                // none does yet, and one joins or loads
  std::map<std::string, bool> groups;  // ready, for each
  std::string absent;                  // "group a is joining (awaits rank 1 of 2); …" of those that do not
  bool operator==(const GroupsHealth&) const = default;
};

class Dispatcher {
 public:
  // None is owned; all outlive the dispatcher. `metrics` may be null (tests).
  Dispatcher(JobStore& store, JobQueue& queue, EventHub& hub, Clocks clocks, FrontendMetrics* metrics,
             DispatcherOptions options);
  ~Dispatcher();  // stops; running jobs keep their leases, as after a crash: Drain first
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // A job in JobStore::Unfinished when the frontend starts: queues it, after requeueing (not counted) a run whose owner
  // is gone. `done` once it is queued or ended.
  void Recover(const UnfinishedJob& job, Finished done);

  // All of the following: any thread, never block; `done` runs on the dispatcher's thread and must not block.
  void CancelRun(const JobId& id);  // after JobStore::Cancel: told to the group at once instead of with the next lease
  void Estimate(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done);
  // The same for a job that is being created: answered from what is known of requests of this shape, and asked of rank
  // 0 only once. `effective` of the answer has no prompts. DeadlineExceeded: rank 0 has not answered within 2 s.
  void EstimateShape(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done);
  void ListGroups(Done<std::vector<v1::WorkerGroup>> done);
  void DrainGroup(const std::string& id, Done<v1::WorkerGroup> done);    // NotFound
  void RestartGroup(const std::string& id, Done<v1::WorkerGroup> done);  // NotFound

  // Blocks. Claims no more; gives running jobs `grace` to end, then requeues them (not counted) and tells all workers
  // to leave. For the main thread after JobQueue::Close.
  void Drain(absl::Duration grace);

  // What health reports: runs on the dispatcher's thread, first with the present state, at once when it changes.
  using HealthListener = std::function<void(const GroupsHealth&)>;
  void SetHealthListener(HealthListener listener);
  // After an unsupervised loss the ranks' streams are closed and nothing else; a supervisor kills and restarts.
  using LossListener =
      std::function<void(const std::string& group, const std::string& incarnation, const std::string& why)>;
  void SetLossListener(LossListener listener);  // whoever listens when a group is lost hears of it

  // Told of a group that is to be restarted and is not here, whether its processes pause or have not joined: its
  // supervisor starts them anew. False: it has none.
  using RestartListener = std::function<bool(const std::string& group)>;
  void SetRestartListener(RestartListener listener);

  // The group is a supervisor's: from now on only who knows `secret` joins, as a rank of `incarnation`. An empty
  // secret: nobody does. From the supervisor, before it starts the processes, and once before anybody can join.
  void Supervise(const std::string& group, const std::string& incarnation, const std::string& secret);
  // The group's supervisor starts it no more until its files change or an operator says so: the group is "failed", with
  // the reason of its last loss.
  void GiveUp(const std::string& group);
  // Somebody else starts the group, of so many ranks. One that stays away for limits.join_timeout is logged, and until
  // it is here it is listed and reported as not ready. Before anybody can join.
  void Await(const std::string& group, int processes);
  // From the Join stream of a rank (join_service.h) and from the supervisor. Who may not join (join_rules.h) is told
  // so, and harms nobody.
  void Join(const v1::Hello& hello, std::shared_ptr<RankLink> link, Entrance entrance = Entrance::kLocalSocket);
  void Receive(std::shared_ptr<RankLink> link, v1::WorkerMessage message);
  void Disconnect(std::shared_ptr<RankLink> link, absl::Status why);
  void ProcessEnded(const std::string& group, const std::string& incarnation, const std::string& why);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // the store's callbacks hold it weakly: they may come after the dispatcher
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_H_
