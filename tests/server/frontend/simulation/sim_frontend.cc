#include "tests/server/frontend/simulation/sim_frontend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kinora::simulation {
namespace {

constexpr int kCapacity = 1000;
constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kSettles = absl::Seconds(5);        // after a start or a pause
constexpr absl::Duration kLongestRetry = absl::Seconds(32);  // the dispatcher's pause after failures of the store

DispatcherOptions OptionsOf(const FrontendId& id) {
  DispatcherOptions options{.owner = id, .lease = kLease, .artifact_directory = "/artifacts"};
  options.identity = {.commit = SimGroup::kCommit, .protocol = SimGroup::kProtocol};
  return options;
}

}  // namespace

SimFrontend::Process::Process(World& world, Ledger& ledger, Database& database, SimFiles& files, const Options& options,
                              FrontendId own)
    : id(std::move(own)),
      store(world, ledger, database.jobs(), id),
      hub(world.clock(), absl::InfiniteDuration(), kCapacity),
      date(world.clock()),
      queue(kCapacity) {
  date.Step(options.skew);
  queue.SetStore(store);
  auto disk = std::make_unique<SimExecutor>(world, absl::Milliseconds(50));
  loops.push_back(disk.get());
  points = std::make_unique<ResumeFiles>(files, world.clock(), std::move(disk));
  DispatcherOptions of_dispatcher = OptionsOf(id);
  of_dispatcher.points = points.get();
  of_dispatcher.preempt_after = options.preempt_after;
  if (!options.alone) of_dispatcher.look_interval = kPoll;
  auto executor = std::make_unique<SimExecutor>(world, absl::Milliseconds(1));
  loops.push_back(executor.get());
  dispatcher = std::make_unique<Dispatcher>(store, database.catalogue(), queue, hub,
                                            Clocks{.date = date, .steady = world.clock()}, nullptr, of_dispatcher,
                                            std::move(executor));
  if (options.alone) {
    events = std::make_unique<OwnEvents>(hub, store);
  } else {
    auto loop = std::make_unique<SimExecutor>(world, absl::Milliseconds(1));
    loops.push_back(loop.get());
    auto of_all = std::make_unique<SharedEvents>(hub, store, kPoll, std::move(loop));
    shared = of_all.get();
    events = std::move(of_all);
  }
}

void SimFrontend::Hear(const v1::VideoEvent& event) {
  if (process_->shared == nullptr) return process_->hub.Publish(event);
  process_->shared->Hear(event);
  if (event.has_state() && event.state().state() == v1::Video::QUEUED) process_->dispatcher->LookAtStore();
}

void SimFrontend::Start() {
  const FrontendId id = absl::StrCat(options_.name, ".", ++starts_);
  world_.Note(absl::StrCat("frontend ", id, " starts"));
  process_ = std::make_unique<Process>(world_, ledger_, database_, files_, options_, id);
  database_.AddListener(
      options_.name, [this](const v1::VideoEvent& event) { Hear(event); },
      [this] { process_->dispatcher->LookAtStore(); });
  process_->dispatcher->SetLossListener(
      [this](const std::string& group, const std::string& incarnation, const std::string&) {
        for (SimGroup* each : options_.groups) {
          if (each->id() == group) each->OnLost(incarnation);
        }
      });
  if (options_.alone) process_->store.EndOtherLeases(id, [](const absl::Status&) {});
  process_->store.Unfinished([this](absl::StatusOr<std::vector<UnfinishedJob>> jobs) {
    jobs.ok() ? Recover(*jobs) : Crash();  // it cannot start without its store
  });
}

void SimFrontend::RecoverOne(const UnfinishedJob& job) {
  process_->dispatcher->Recover(job, [this, id = job.video.id()](const absl::Status& status) {
    if (status.ok() || absl::IsUnavailable(status)) return;
    ledger_.Fail(absl::StrCat(id, " was not recovered: ", std::string(status.message())));
  });
}

void SimFrontend::Recover(const std::vector<UnfinishedJob>& jobs) {
  for (const UnfinishedJob& job : jobs) RecoverOne(job);
  FrontendLeaseOptions options{.frontend = {.id = process_->id, .address = options_.name}, .lease = kLease};
  options.on_lost_run = [this](const UnfinishedJob& job) {
    if (process_ != nullptr) RecoverOne(job);
  };
  auto tidying = std::make_unique<SimExecutor>(world_, absl::Milliseconds(1));
  process_->loops.push_back(tidying.get());
  process_->housekeeper = std::make_unique<Housekeeper>(
      process_->store, files_, process_->hub, world_.clock(),
      [this](const JobId& id) { Cancel(id, [](const absl::StatusOr<v1::Video>&) {}); },
      HousekeeperOptions{.sweep_interval = absl::InfiniteDuration()}, std::move(tidying));
  options.on_lost_client = [this](const JobId& id) { process_->housekeeper->ClientLeft(id); };
  auto loop = std::make_unique<SimExecutor>(world_, absl::Milliseconds(1));
  process_->loops.push_back(loop.get());
  process_->lease = std::make_unique<FrontendLease>(process_->store, process_->store, world_.clock(),
                                                    std::move(options), std::move(loop));
  process_->serving = true;
  health_ = {.well_since = world_.now() + kSettles, .alone = options_.alone};
  for (SimGroup* group : options_.groups) group->FrontendUp(*process_->dispatcher, health_);
}

void SimFrontend::Crash() {
  if (process_ == nullptr) return;
  world_.Note(absl::StrCat("frontend ", process_->id, " ends"));
  ledger_.FrontendLost();
  process_->serving = false;
  health_.well_since = absl::InfiniteFuture();
  if (on_crash_ != nullptr) on_crash_();
  database_.RemoveListener(options_.name);
  for (SimGroup* group : options_.groups) group->FrontendGone();
  process_->lease.reset();
  process_->housekeeper.reset();
  process_->dispatcher.reset();
  process_.reset();
}

void SimFrontend::Drain() {
  world_.Note(absl::StrCat("frontend ", process_->id, " drains"));
  process_->serving = false;
  health_.well_since = absl::InfiniteFuture();
  process_->queue.Close();
  process_->dispatcher->BeginDrain(world_.Between(absl::Seconds(1), absl::Seconds(20)), [this, start = starts_] {
    // Leaves time for the streams, and ends outside of its own task.
    world_.After(absl::Milliseconds(100), [this, start] {
      if (start == starts_) Crash();
    });
  });
}

void SimFrontend::Pause(absl::Duration duration, bool at_claim) {
  if (at_claim) return process_->store.AtClaim([this, duration] { Pause(duration, false); });
  world_.Note(absl::StrCat("frontend ", process_->id, " pauses for ", absl::FormatDuration(duration)));
  for (SimExecutor* loop : process_->loops) loop->PauseUntil(world_.now() + duration);
  NotWellFor(duration + kSettles);
  health_.awake_since = std::max(health_.awake_since, world_.now() + duration);
}

void SimFrontend::FailStore(absl::Duration duration) {
  process_->store.FailUntil(world_.now() + duration);
  NotWellFor(duration + kLongestRetry);
}

void SimFrontend::LoseAnswers(absl::Duration duration) {
  if (options_.alone) return FailStore(duration);  // a store of its own says what has become of a commit
  process_->store.LoseAnswersUntil(world_.now() + duration);
  NotWellFor(2 * duration + kSettles);  // the dispatcher retries after as long
}

void SimFrontend::NotWellFor(absl::Duration duration) {
  health_.well_since = std::max(health_.well_since, world_.now() + duration);
}

void SimFrontend::Create(const v1::CreateVideoRequest& request, Done<Created> done) {
  if (absl::Status reserved = process_->queue.Reserve(); !reserved.ok()) return done(std::move(reserved));
  process_->store.Create(request, request.generation(), /*seconds=*/20,
                         [this, request, done = std::move(done)](absl::StatusOr<Created> created) mutable {
                           if (created.ok() && !created->replayed) {
                             process_->queue.Push(ToQueuedJob(created->video, request.scheduling()));
                           } else {
                             process_->queue.Unreserve();
                           }
                           done(std::move(created));
                         });
}

void SimFrontend::Cancel(const JobId& id, Done<v1::Video> done) {
  process_->store.Cancel(id, [this, id, done = std::move(done)](absl::StatusOr<v1::Video> video) mutable {
    if (video.ok()) {
      process_->queue.Remove(id);
      process_->dispatcher->CancelRun(id);
      if (!IsTerminal(video->state())) {
        ledger_.CancelStored(id);
        database_.TellCancel();
      }
    }
    done(std::move(video));
  });
}

}  // namespace kinora::simulation
