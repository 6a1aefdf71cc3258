// Dispatcher's implementation, for dispatcher*.cc. All but the constructor, Post and Stop runs on `loop_`.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_IMPL_H_
#define KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_IMPL_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/common/attended_time.h"
#include "server/common/log_limit.h"
#include "server/frontend/groups/dispatcher.h"
#include "server/frontend/groups/join_rules.h"
#include "server/frontend/groups/known_shape.h"
#include "server/frontend/groups/preemption.h"
#include "server/frontend/groups/running_job.h"
#include "server/net/event_loop.h"

namespace kinora {

class Dispatcher::Impl : public WorkerGroup::Listener, public std::enable_shared_from_this<Dispatcher::Impl> {
 public:
  Impl(JobStore& store, CatalogueStore& catalogue, WorkQueue& queue, EventHub& hub, Clocks clocks,
       FrontendMetrics* metrics, DispatcherOptions options, std::unique_ptr<Executor> loop);

  template <typename F>
  void Post(F task) {  // F: void(Impl&)
    loop_->Post([this, task = std::move(task)]() mutable { task(*this); });
  }
  void Stop() { loop_->Stop(); }

  // Groups (dispatcher.cc)
  void Await(const std::string& id, int processes);
  void GiveUp(const std::string& id);
  void Join(const v1::Hello& hello, const std::shared_ptr<RankLink>& link, Entrance entrance);
  void Receive(const std::shared_ptr<RankLink>& link, const v1::WorkerMessage& message);
  WorkerGroup* GroupOf(const RankLink& link);
  void ProcessEnded(const std::string& id, const std::string& incarnation, const std::string& why);
  void Estimate(const std::string& model, const v1::Generation& effective, Asks asks, Done<v1::Estimate> done);
  void EstimateShape(const std::string& model, const v1::Generation& effective, Asks asks, Done<v1::Estimate> done);
  std::vector<v1::WorkerGroup> ListGroups();
  absl::StatusOr<v1::WorkerGroup> DrainGroup(const std::string& id);
  absl::StatusOr<v1::WorkerGroup> RestartGroup(const std::string& id);
  void SetGroupState(const std::string& id, const std::string& state);  // "": no rank has joined yet
  void ReportHealth();
  absl::Time now() const { return clocks_.date.Now(); }
  absl::Time attended() { return attended_.Now(); }  // the clock for silence and progress of groups
  void OnReady(WorkerGroup& group) override;
  void OnFitness(WorkerGroup& group) override;
  void OnModelChanged(WorkerGroup& group, const v1::ModelInfo& before) override;
  void OnStage(WorkerGroup& group, const v1::StageMark& mark) override;
  void OnStep(WorkerGroup& group, const v1::StepMark& mark) override;
  void OnPreview(WorkerGroup& group, const v1::PreviewMark& mark) override;
  void OnResolved(WorkerGroup& group, const v1::ResolvedMark& mark) override;
  void OnResume(WorkerGroup& group, const v1::ResumeMark& mark) override;
  void OnRunEnded(WorkerGroup& group, const v1::RunResult& result) override;
  void OnUpload(WorkerGroup& group, const v1::UploadChunk& chunk) override;
  void OnFetch(WorkerGroup& group, const v1::InputFetch& fetch) override;
  void OnEstimate(WorkerGroup& group, const v1::EstimateResult& result) override;
  void OnLost(WorkerGroup& group, LossReason reason, const std::string& why) override;

  // Runs (dispatcher_runs.cc)
  void Recover(const UnfinishedJob& job, Finished done);
  void CancelRun(const JobId& id);
  void Schedule();
  void BeginDrain(absl::Duration grace, std::function<void()> drained);
  struct Sharing;  // dispatcher_sharing.h
  HealthListener health_listener_;
  std::optional<GroupsHealth> reported_health_;  // the last report
  LossListener loss_listener_;
  RestartListener restart_listener_;
  JoinRules join_rules_;

 private:
  // Returns a callback that runs `f(Impl&, results…)` on the loop, or never once the dispatcher is destroyed.
  template <typename... Results, typename F>
  auto OnLoop(F f) {
    return [weak = weak_from_this(), f = std::move(f)](Results... results) mutable {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->loop_->Post([impl = self.get(), f = std::move(f), ... results = std::move(results)]() mutable {
        f(*impl, std::move(results)...);
      });
    };
  }
  template <typename F>
  void After(absl::Duration delay, F f) {  // F: void(Impl&)
    loop_->PostAt(loop_->Now() + delay, [this, f = std::move(f)]() mutable { f(*this); });
  }
  absl::Status Admit(const v1::Hello& hello, const std::shared_ptr<RankLink>& link, Entrance entrance);
  std::string SharedFolder(Entrance entrance) const;  // of artifacts, for workers that joined there; "": none
  void ExpectRanks(const std::string& id);
  void AwaitBack(const WorkerGroup& group);
  void StoreModel(const WorkerGroup& group);
  void NoteLoras(const v1::ModelInfo& before, const v1::ModelInfo& now);
  void StartEstimate(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done);
  void CheckHealth();
  v1::WorkerGroup Describe(const WorkerGroup& group);
  void CountRestart(LossReason reason);
  void OnShape(const std::string& key, int64_t asker, int64_t epoch, absl::StatusOr<v1::Estimate> estimate);
  void TireOfShape(const std::string& key, int64_t ticket);
  void ForgetShapes();  // the groups have changed
  void AgeShapes();     // a run has reported its speed
  void FailEstimates(const std::string& group, const absl::Status& status);
  RunningJob* RunOf(const WorkerGroup& group);
  RunningJob* Current(const Attempt& attempt);
  struct Resuming;    // dispatcher_resume.h
  struct Preempting;  // likewise
  GroupsNow ListIdle();
  std::vector<v1::ModelInfo> ModelsNow() const;
  void OnClaimed(absl::StatusOr<std::optional<WorkClaim>> claimed);
  void StartRun(RunningJob& run, WorkerGroup& group);
  void StopRun(RunningJob& run, StopReason why);
  void ScheduleRenewal(const Attempt& attempt, absl::Time asked);  // asked: for the present lease, as time of the loop
  void Renew(const Attempt& attempt);
  void AppendEvent(RunningJob& run, const v1::VideoEvent& event);
  void Publish(RunningJob& run);  // sends the held step and preview
  void EndRun(RunningJob& run, const v1::RunResult& result);
  void EndLostRun(RunningJob& run, const std::string& why, bool counts);  // counts: as a lost group
  void Finish(const Attempt& attempt, const Outcome& outcome);
  void Requeue(const Attempt& attempt, const Release& release);
  void Forget(const Attempt& attempt);
  void QueueAgain(QueuedJob job);
  void ExpireQueued();
  void CountRuns();
  void ReleaseRuns();  // requeues running jobs, not counted
  void EndDrain();
  bool StoreFails(const absl::Status& status);  // true for a temporary failure (full disk, locked file): retry
  absl::Duration StoreRetryPause() const;       // grows while the store keeps failing

  JobStore& store_;
  CatalogueStore& catalogue_;
  WorkQueue& queue_;
  EventHub& hub_;
  const Clocks clocks_;
  FrontendMetrics* const metrics_;
  const DispatcherOptions options_;
  const absl::Duration tick_;  // longest interval between health checks
  AttendedTime attended_;

  std::map<std::string, std::unique_ptr<WorkerGroup>> groups_;  // by id; never kLost
  std::vector<std::unique_ptr<WorkerGroup>> dead_groups_;       // lost, until the loop has left their methods
  std::map<std::string, v1::WorkerGroup> lost_groups_;          // by id; last description, until the group joins again
  std::map<std::string, std::string> lost_incarnations_;        // by id; the last one lost
  std::map<std::string, v1::ModelInfo> away_models_;            // by id; models of lost groups that may come back
  std::map<std::string, std::string> group_states_;             // by id; as set in the gauge
  std::set<std::string> described_;                             // incarnations whose model is stored
  std::map<std::string, bool> model_writes_;  // by incarnation, while its model is stored: whether it has changed
  absl::Time next_health_check_ = absl::InfiniteFuture();
  std::optional<PendingClaim> claim_;
  std::map<std::string, Reservation> reservations_;  // by group
  std::map<JobId, RunningJob> runs_;
  StoreView view_;
  std::map<int64_t, PendingEstimate> estimates_;
  std::map<std::string, KnownShape> shapes_;                        // by ShapeKey
  int64_t last_estimate_ = 0, last_ticket_ = 0, shapes_epoch_ = 0;  // epoch: counts changes of groups
  absl::Time next_expiry_ = absl::InfiniteFuture(), store_failing_since_ = absl::InfiniteFuture();
  std::map<std::string, absl::Time> gone_loras_;  // GroupsHealth::gone_loras
  LogLimit refusals_, model_changes_, fitness_changes_, outcomes_not_stored_;
  bool draining_ = false;
  std::function<void()> drained_;         // until the drain has ended
  const std::unique_ptr<Executor> loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_IMPL_H_
