#include "server/frontend/groups/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/metrics.h"
#include "server/common/secret.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/groups/dispatcher_impl.h"
#include "server/frontend/groups/dispatcher_sharing.h"

namespace kinora {
namespace {

constexpr absl::Duration kLeaveGrace = absl::Seconds(2);
constexpr absl::Duration kLongestTick = absl::Seconds(1);

// Labels of the gauge.
constexpr const char* kGroupStates[] = {"joining",  "loading", "idle", "unfit", "busy",
                                        "draining", "drained", "lost", "failed"};
// In the order of LossReason.
constexpr const char* kLossReasons[] = {"disconnected",  "silent",        "stalled",     "cancel_ignored",
                                        "process_ended", "admin",         "rank_failed", "incomplete",
                                        "left",          "model_conflict"};

absl::Status NoSuchGroup(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("id: no worker group \"", id, "\" exists"));
}

}  // namespace

Dispatcher::Dispatcher(JobStore& store, CatalogueStore& catalogue, WorkQueue& queue, EventHub& hub, Clocks clocks,
                       FrontendMetrics* metrics, DispatcherOptions options, std::unique_ptr<Executor> loop)
    : impl_(std::make_shared<Impl>(store, catalogue, queue, hub, clocks, metrics, std::move(options),
                                   loop != nullptr ? std::move(loop) : std::make_unique<EventLoop>(clocks.steady))) {
  for (const char* reason : kLossReasons) {
    if (metrics != nullptr) metrics->group_restarts_total.Add({{"reason", reason}});
  }
  queue.SetPushListener([weak = std::weak_ptr<Impl>(impl_)] {
    if (const auto impl = weak.lock()) impl->Post([](Impl& self) { self.Schedule(); });
  });
}

Dispatcher::~Dispatcher() { impl_->Stop(); }

void Dispatcher::Recover(const UnfinishedJob& job, Finished done) {
  impl_->Post([job, done = std::move(done)](Impl& self) mutable { self.Recover(job, std::move(done)); });
}

void Dispatcher::CancelRun(const JobId& id) {
  impl_->Post([id](Impl& self) { self.CancelRun(id); });
}

void Dispatcher::LookAtStore() {
  impl_->Post([](Impl& self) { Impl::Sharing::Look(self); });
}

void Dispatcher::LookForWork() {
  impl_->Post([](Impl& self) { Impl::Sharing::LookForWork(self); });
}

void Dispatcher::Estimate(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done,
                          Asks asks) {
  impl_->Post([model, effective, asks, done = std::move(done)](Impl& self) mutable {
    self.Estimate(model, effective, asks, std::move(done));
  });
}

void Dispatcher::EstimateShape(const std::string& model, const v1::Generation& effective, Done<v1::Estimate> done,
                               Asks asks) {
  impl_->Post([model, effective, asks, done = std::move(done)](Impl& self) mutable {
    self.EstimateShape(model, effective, asks, std::move(done));
  });
}

void Dispatcher::ListGroups(Done<std::vector<v1::WorkerGroup>> done) {
  impl_->Post([done = std::move(done)](Impl& self) mutable { done(self.ListGroups()); });
}

void Dispatcher::DrainGroup(const std::string& id, Done<v1::WorkerGroup> done) {
  impl_->Post([id, done = std::move(done)](Impl& self) mutable { done(self.DrainGroup(id)); });
}

void Dispatcher::RestartGroup(const std::string& id, Done<v1::WorkerGroup> done) {
  impl_->Post([id, done = std::move(done)](Impl& self) mutable { done(self.RestartGroup(id)); });
}

void Dispatcher::BeginDrain(absl::Duration grace, std::function<void()> drained) {
  impl_->Post([grace, drained = std::move(drained)](Impl& self) { self.BeginDrain(grace, drained); });
}

void Dispatcher::Drain(absl::Duration grace) {
  absl::Notification drained;
  BeginDrain(grace, [&] { drained.Notify(); });
  drained.WaitForNotification();
}

void Dispatcher::SetHealthListener(HealthListener listener) {
  impl_->Post([listener = std::move(listener)](Impl& self) mutable {
    self.health_listener_ = std::move(listener);
    self.reported_health_.reset();
    self.ReportHealth();
  });
}

void Dispatcher::SetLossListener(LossListener listener) {
  impl_->Post([listener = std::move(listener)](Impl& self) mutable { self.loss_listener_ = std::move(listener); });
}

void Dispatcher::SetRestartListener(RestartListener listener) {
  impl_->Post([listener = std::move(listener)](Impl& self) mutable { self.restart_listener_ = std::move(listener); });
}

void Dispatcher::Supervise(const std::string& group, const std::string& incarnation, const std::string& secret) {
  impl_->Post([group, incarnation, secret](Impl& self) {
    self.join_rules_.Supervise(group, incarnation, secret);
    self.SetGroupState(group, "");
  });
}

void Dispatcher::Await(const std::string& group, int processes) {
  impl_->Post([group, processes](Impl& self) { self.Await(group, processes); });
}

void Dispatcher::GiveUp(const std::string& group) {
  impl_->Post([group](Impl& self) { self.GiveUp(group); });
}

void Dispatcher::Join(const v1::Hello& hello, std::shared_ptr<RankLink> link, Entrance entrance) {
  impl_->Post([hello, link = std::move(link), entrance](Impl& self) {
    self.Join(hello, link, entrance);
    link->ReadOn();
  });
}

void Dispatcher::Receive(std::shared_ptr<RankLink> link, v1::WorkerMessage message) {
  impl_->Post([link = std::move(link), message = std::move(message)](Impl& self) { self.Receive(link, message); });
}

void Dispatcher::Disconnect(std::shared_ptr<RankLink> link, absl::Status why) {
  impl_->Post([link = std::move(link), why = std::move(why)](Impl& self) {
    if (WorkerGroup* group = self.GroupOf(*link)) group->Disconnect(*link, why);
  });
}

void Dispatcher::ProcessEnded(const std::string& group, const std::string& incarnation, const std::string& why) {
  impl_->Post([group, incarnation, why](Impl& self) { self.ProcessEnded(group, incarnation, why); });
}

// With this tick a pause of this process counts as at most two ticks of silence, a quarter of the heartbeat timeout.
Dispatcher::Impl::Impl(JobStore& store, CatalogueStore& catalogue, WorkQueue& queue, EventHub& hub, Clocks clocks,
                       FrontendMetrics* metrics, DispatcherOptions options, std::unique_ptr<Executor> loop)
    : join_rules_(options.identity),
      store_(store),
      catalogue_(catalogue),
      queue_(queue),
      hub_(hub),
      clocks_(clocks),
      metrics_(metrics),
      options_(std::move(options)),
      tick_(std::min(kLongestTick, options_.limits.heartbeat_timeout / 8)),
      attended_(clocks.steady, tick_),
      refusals_(absl::Seconds(1), clocks.steady),
      model_changes_(absl::Seconds(1), clocks.steady),
      fitness_changes_(absl::Seconds(1), clocks.steady),
      outcomes_not_stored_(absl::Minutes(1), clocks.steady),
      loop_(std::move(loop)) {
  for (const v1::ModelInfo& model : options_.known_models) away_models_["known: " + model.id()] = model;
  After(options_.limits.join_timeout, [](Impl& self) {
    for (const v1::ModelInfo& model : self.options_.known_models) self.away_models_.erase("known: " + model.id());
    self.Schedule();
  });
  Sharing::Begin(*this);
}

void Dispatcher::Impl::Await(const std::string& id, int processes) {
  join_rules_.Await(id, processes);
  v1::WorkerGroup& absent = lost_groups_[id];
  absent.set_id(id);
  absent.set_state("joining");
  absent.set_reason(absl::StrCat("waiting for all its ranks, ", processes));
  ExpectRanks(id);
  CheckHealth();
}

void Dispatcher::Impl::GiveUp(const std::string& id) {
  const auto it = lost_groups_.find(id);
  if (it == lost_groups_.end() || groups_.contains(id)) return;
  v1::WorkerGroup& group = it->second;
  group.set_state("failed");
  away_models_.erase(id);
  const std::string why = group.reason();
  const std::string next =
      absl::StrCat("a change of its model files, `kinora admin restart ", id, "`, or a start with other flags");
  group.set_reason(absl::StrCat(why, "; it waits for ", next));
  CheckHealth();  // before the log line, so that /readyz agrees with it
  Log(Severity::kError, "group_failed", {{"group", id}, {"why", why}, {"awaits", next}});
  Schedule();
}

// Logs once if no rank of an awaited group joins, or joins again, in time.
void Dispatcher::Impl::ExpectRanks(const std::string& id) {
  const auto report = [id, last = lost_incarnations_[id]](Impl& self) {
    if (self.groups_.contains(id) || self.lost_incarnations_[id] != last) return;
    const std::string why =
        absl::StrCat("waiting for all its ranks, ", self.join_rules_.awaited().at(id), ": none has joined within ",
                     absl::FormatDuration(self.options_.limits.join_timeout));
    self.lost_groups_[id].set_reason(why);
    self.CheckHealth();
    Log(Severity::kWarning, "group_incomplete", {{"group", id}, {"why", why}});
  };
  After(options_.limits.join_timeout, [id, report](Impl& self) {
    if (!self.options_.is_elsewhere) return report(self);
    self.options_.is_elsewhere(
        id, self.OnLoop<absl::StatusOr<bool>>([id, report](Impl& impl, const absl::StatusOr<bool>& elsewhere) {
          if (!elsewhere.ok() || !*elsewhere) return report(impl);
          impl.ExpectRanks(id);
        }));
  });
}

// A rank that names no incarnation joins the present one, or starts a new one if there is none.
std::string Dispatcher::Impl::SharedFolder(Entrance entrance) const {
  return entrance == Entrance::kLocalSocket ? options_.artifact_directory : "";
}

absl::Status Dispatcher::Impl::Admit(const v1::Hello& hello, const std::shared_ptr<RankLink>& link, Entrance entrance) {
  KINORA_RETURN_IF_ERROR(join_rules_.Check(hello, entrance));
  if (draining_) return absl::UnavailableError("the frontend is stopping");
  if (entrance == Entrance::kJoinPort && !hello.incarnation().empty() && !groups_.contains(hello.group())) {
    return absl::FailedPreconditionError(
        "incarnation: unknown; the frontend assigns it, so start the worker without --incarnation");
  }
  std::unique_ptr<WorkerGroup>& group = groups_[hello.group()];
  if (group != nullptr && !hello.incarnation().empty() && group->incarnation() != hello.incarnation()) {
    return absl::FailedPreconditionError(absl::StrCat("group ", hello.group(), " has already joined"));
  }
  if (group == nullptr) {
    group = std::make_unique<WorkerGroup>(hello.group(),
                                          hello.incarnation().empty() ? DrawIncarnation() : hello.incarnation(),
                                          std::max(1, hello.world_size()), options_.limits, *this);
  }
  absl::Status status = group->AddRank(hello, link, attended());
  if (status.ok() && hello.rank() == 0 && SharedFolder(entrance).empty()) group->TakeUploads();
  if (group->ranks() == 0) groups_.erase(hello.group());
  return status;
}

void Dispatcher::Impl::Join(const v1::Hello& hello, const std::shared_ptr<RankLink>& link, Entrance entrance) {
  const absl::Status status = Admit(hello, link, entrance);
  const std::optional<int64_t> not_logged = status.ok() ? 0 : refusals_.Admit();
  const WorkerGroup* const group = status.ok() ? groups_.at(hello.group()).get() : nullptr;
  if (not_logged) {
    Log(status.ok() ? Severity::kInfo : Severity::kWarning, status.ok() ? "worker_joined" : "worker_refused",
        {{"group", hello.group()},
         {"incarnation", status.ok() ? group->incarnation() : hello.incarnation()},
         {"rank", hello.rank()},
         {"pid", hello.pid()},
         {"address", hello.address()},
         {"device", hello.device()},
         {"commit", hello.commit()},
         {"why", std::string(status.message())},
         {"not_logged", *not_logged}});
  }
  if (!status.ok()) return link->Close(status);

  lost_groups_.erase(hello.group());
  v1::FrontendMessage message;
  v1::Welcome& welcome = *message.mutable_welcome();
  *welcome.mutable_heartbeat_interval() = ToProto(options_.limits.heartbeat_interval);
  welcome.set_artifact_directory(SharedFolder(entrance));
  welcome.set_group_key(group->key());
  welcome.set_incarnation(group->incarnation());
  link->Send(message);
  group->SendPublished(*link);
  CheckHealth();
}

void Dispatcher::Impl::Receive(const std::shared_ptr<RankLink>& link, const v1::WorkerMessage& message) {
  WorkerGroup* const group = GroupOf(*link);
  if (group != nullptr) group->Receive(*link, message, attended());
  RunningJob* const run = group == nullptr ? nullptr : RunOf(*group);
  if (run == nullptr || run->appends <= kMostAppends) return link->ReadOn();
  run->held.push_back(link);
}

WorkerGroup* Dispatcher::Impl::GroupOf(const RankLink& link) {
  for (const auto& [id, group] : groups_) {
    if (group->Has(link)) return group.get();
  }
  return nullptr;
}

void Dispatcher::Impl::ProcessEnded(const std::string& id, const std::string& incarnation, const std::string& why) {
  const auto it = groups_.find(id);
  if (it != groups_.end() && it->second->incarnation() == incarnation) {
    it->second->Lose(LossReason::kProcessEnded, absl::StrCat("its process exited: ", why));
  } else if (it == groups_.end() && lost_incarnations_[id] != incarnation) {  // it ended before it joined
    CountRestart(LossReason::kProcessEnded);
    v1::WorkerGroup& lost = lost_groups_[id];
    lost.set_id(id);
    lost.set_state("lost");
    lost.set_reason(absl::StrCat("its process exited: ", why));
    CheckHealth();
  }
}

void Dispatcher::Impl::CountRestart(LossReason reason) {
  if (metrics_ != nullptr && !draining_) {
    metrics_->group_restarts_total.Add({{"reason", kLossReasons[static_cast<int>(reason)]}}).Increment();
  }
}

void Dispatcher::Impl::EndLostRun(RunningJob& run, const std::string& why, bool counts) {
  const Attempt attempt = run.attempt;
  run.group.clear();
  if (run.stop == StopReason::kDeadline) {
    Outcome outcome{.state = v1::Video::FAILED, .error = {}, .artifacts = {}, .usage = {}, .progress = run.progress};
    outcome.error = ToRpcStatus(absl::DeadlineExceededError("the job's deadline passed while it ran"));
    return Finish(attempt, outcome);
  }
  const bool lost = counts && run.stop != StopReason::kRelease;
  Requeue(attempt, {.why = why,
                    .lost_group = lost,
                    .progress = run.progress,
                    .drop_earlier_point = lost && LossDropsPoint(run.offer)});
}

void Dispatcher::Impl::OnLost(WorkerGroup& group, LossReason reason, const std::string& why) {
  CountRestart(reason);
  described_.erase(group.incarnation());
  lost_incarnations_[group.id()] = group.incarnation();
  // While the frontend stops, its groups leave as requested.
  const bool left = draining_ || reason == LossReason::kLeft;
  Log(left ? Severity::kInfo : Severity::kWarning, left ? "group_left" : "group_lost",
      {{"group", group.id()}, {"incarnation", group.incarnation()}, {"why", why}});
  lost_groups_[group.id()] = Describe(group);
  if (join_rules_.awaited().contains(group.id())) ExpectRanks(group.id());
  if (reason != LossReason::kModelConflict) AwaitBack(group);
  ForgetShapes();
  FailEstimates(group.id(), absl::UnavailableError(absl::StrCat("the worker group was lost: ", why)));
  if (RunningJob* run = RunOf(group)) EndLostRun(*run, why, /*counts=*/!left);
  // A process that ended its stream is exiting and may log the reason first; other processes will not exit by
  // themselves.
  const bool leaving =
      reason == LossReason::kDisconnected || reason == LossReason::kRankFailed || reason == LossReason::kLeft;
  const absl::Duration grace = leaving ? kLeaveGrace : absl::ZeroDuration();
  After(grace, [id = group.id(), incarnation = group.incarnation(), why](Impl& self) {
    if (self.loss_listener_) self.loss_listener_(id, incarnation, why);
  });
  // Called from a method of the group, so the group is destroyed later, on the loop. A task cannot own it: a loop that
  // stops destroys new tasks at once.
  const auto it = groups_.find(group.id());
  dead_groups_.push_back(std::move(it->second));
  groups_.erase(it);
  loop_->Post([this] {
    dead_groups_.clear();
    CheckHealth();
  });
}

// While there are groups it runs at least once per tick_, so that attended time excludes times when this process was
// stopped.
void Dispatcher::Impl::CheckHealth() {
  const absl::Time now = attended();
  absl::Time next = absl::InfiniteFuture();
  std::vector<std::string> ids;
  for (const auto& [id, group] : groups_) ids.push_back(id);
  for (const std::string& id : ids) {
    const auto it = groups_.find(id);
    if (it != groups_.end()) next = std::min({next, now + tick_, it->second->CheckHealth(now)});
  }
  for (const v1::WorkerGroup& group : ListGroups()) SetGroupState(group.id(), group.state());
  ReportHealth();
  // Heartbeats only move the next time later. A timer that fires early sets a new one, so one timer is enough.
  if (next >= next_health_check_) return;
  next_health_check_ = next;
  After(next - now, [next](Impl& timer) {
    timer.Post([next](Impl& self) {                 // after the heartbeats already queued, which a timer overtakes
      if (self.next_health_check_ != next) return;  // replaced by an earlier timer
      self.next_health_check_ = absl::InfiniteFuture();
      self.CheckHealth();
    });
  });
}

void Dispatcher::Impl::SetGroupState(const std::string& id, const std::string& state) {
  const auto [it, is_new] = group_states_.try_emplace(id);
  std::string& known = it->second;
  if (is_new && metrics_ != nullptr) {
    for (const char* each : kGroupStates) metrics_->group_state.Add({{"group", id}, {"state", each}});
  }
  if (state.empty() || known == state) return;
  if (metrics_ != nullptr) {
    if (!known.empty()) metrics_->group_state.Add({{"group", id}, {"state", known}}).Set(0);
    metrics_->group_state.Add({{"group", id}, {"state", state}}).Set(1);
  }
  known = state;
}

void Dispatcher::Impl::ReportHealth() {
  if (!health_listener_) return;
  GroupsHealth health;
  const std::vector<v1::WorkerGroup> groups = ListGroups();
  health.failed = !groups.empty() && std::all_of(groups.begin(), groups.end(), [](const v1::WorkerGroup& group) {
    return group.state() == "failed";
  });
  for (const v1::WorkerGroup& group : groups) {
    const auto it = groups_.find(group.id());
    const bool ready =
        it != groups_.end() && it->second->serving() && described_.contains(it->second->incarnation()) && !draining_;
    health.groups[group.id()] = ready;
    health.ready |= ready;
    if (ready) health.models.insert(it->second->ready().model().id());
    if (ready) continue;
    health.loading |= group.state() == "joining" || group.state() == "loading";
    absl::StrAppend(&health.absent, health.absent.empty() ? "" : "; ", "group ", group.id(), " is ", group.state());
    if (!group.reason().empty()) absl::StrAppend(&health.absent, " (", group.reason(), ")");
  }
  health.loading &= !health.ready;
  health.gone_loras = gone_loras_;
  if (reported_health_ == health) return;
  reported_health_ = health;
  health_listener_(health);
}

v1::WorkerGroup Dispatcher::Impl::Describe(const WorkerGroup& group) { return group.Describe(now() - attended()); }

std::vector<v1::WorkerGroup> Dispatcher::Impl::ListGroups() {
  std::vector<v1::WorkerGroup> groups;
  for (const auto& [id, group] : groups_) groups.push_back(Describe(*group));
  for (const auto& [id, group] : lost_groups_) {
    if (!groups_.contains(id)) groups.push_back(group);
  }
  return groups;
}

absl::StatusOr<v1::WorkerGroup> Dispatcher::Impl::DrainGroup(const std::string& id) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return NoSuchGroup(id);
  it->second->Drain();
  CheckHealth();
  return Describe(*it->second);
}

absl::StatusOr<v1::WorkerGroup> Dispatcher::Impl::RestartGroup(const std::string& id) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) {
    if (!restart_listener_ || !restart_listener_(id)) return NoSuchGroup(id);
    v1::WorkerGroup& lost = lost_groups_[id];
    lost.set_id(id);
    lost.set_state("lost");
    lost.set_reason("restarted by an administrator");
    CheckHealth();
    return lost;
  }
  if (RunningJob* run = RunOf(*it->second)) run->stop = StopReason::kRelease;
  it->second->Lose(LossReason::kAdmin, "restarted by an administrator");
  return lost_groups_[id];
}

}  // namespace kinora
