#include "tests/server/frontend/simulation/simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kinora::simulation {
namespace {

constexpr absl::Duration kTakesOver = absl::Seconds(15);  // a third of a lease, and more
constexpr absl::Duration kMostSkew = absl::Minutes(2);
constexpr absl::Duration kFaultsFor = absl::Minutes(5);
constexpr absl::Duration kLongestRecovery = absl::Minutes(60);  // from the last fault to the end of all jobs

}  // namespace

Simulation::Simulation(uint64_t seed) : world_(seed), ledger_(world_), database_(world_, ledger_) {
  const int frontends = 1 + world_.Pick(3);
  const std::vector<std::vector<SimGroup*>> of = MakeGroups(frontends);
  const absl::Duration preempt_after = world_.Chance(0.5) ? absl::Seconds(3) : absl::ZeroDuration();
  if (frontends > 1) database_.LoseNews();
  std::vector<SimFrontend*> all;
  for (int i = 0; i < frontends; ++i) {
    frontends_.push_back(std::make_unique<SimFrontend>(
        world_, ledger_, database_, files_,
        SimFrontend::Options{.name = absl::StrCat("f", i),
                             .alone = frontends == 1,
                             .preempt_after = preempt_after,
                             .skew = world_.Chance(0.5) ? world_.Between(-kMostSkew, kMostSkew) : absl::ZeroDuration(),
                             .groups = of[i]}));
    all.push_back(frontends_.back().get());
    all.back()->SetCrashListener([this, frontend = all.back()] {
      for (const auto& client : clients_) client->FrontendGone(*frontend);
    });
  }
  const int clients = 5 + world_.Pick(16);
  for (int i = 0; i < clients; ++i) clients_.push_back(std::make_unique<SimClient>(world_, ledger_, all, i));
  faults_until_ = world_.now() + kFaultsFor;
  ledger_.SetWellSince([this] {
    absl::Time since = absl::InfiniteFuture();
    for (const auto& frontend : frontends_) since = std::min(since, frontend->well_since());
    return since;
  });
}

// Returns them by the number of their frontend.
std::vector<std::vector<SimGroup*>> Simulation::MakeGroups(int frontends) {
  const int groups = 1 + world_.Pick(4);
  std::vector<std::vector<SimGroup*>> of(frontends);
  for (int i = 0; i < groups; ++i) {
    groups_.push_back(std::make_unique<SimGroup>(world_, ledger_, files_,
                                                 SimGroup::Options{.id = absl::StrCat(i),
                                                                   .ranks = 1 << world_.Pick(4),
                                                                   .supervised = world_.Chance(0.6),
                                                                   .on_interrupted = [this] { CheckInterruption(); }}));
    of[i % frontends].push_back(groups_.back().get());
  }
  return of;
}

Simulation::~Simulation() {
  for (const auto& frontend : frontends_) frontend->Crash();  // closes the clients' watches
}

void Simulation::KeepUp(SimFrontend& frontend) {
  if (!frontend.running()) frontend.Start();
  world_.After(world_.Between(absl::Seconds(1), absl::Seconds(5)), [this, &frontend] { KeepUp(frontend); });
}

void Simulation::FaultOf(SimFrontend& frontend) {
  if (!frontend.serving()) return;
  switch (world_.Pick(6)) {
    case 0:
      return frontend.Drain();
    case 1:
      return frontend.Pause(world_.Between(absl::Seconds(1), absl::Seconds(60)), /*at_claim=*/world_.Chance(0.5));
    case 2:
      return frontend.FailStore(world_.Between(absl::Seconds(1), absl::Seconds(60)));
    case 3:
      return frontend.LoseAnswers(world_.Between(absl::Seconds(1), absl::Seconds(20)));
    default:
      return frontend.Crash();
  }
}

void Simulation::Fault() {
  if (world_.now() >= faults_until_) return;
  world_.After(world_.Between(absl::Seconds(1), absl::Seconds(40)), [this] { Fault(); });
  ++faults_;
  SimGroup& group = *groups_[world_.Pick(static_cast<int>(groups_.size()))];
  switch (world_.Pick(9)) {
    case 0:
      return group.Stall(world_.Between(absl::Seconds(1), absl::Minutes(3)));
    case 1:
      return group.Silence(world_.Between(absl::Seconds(1), absl::Minutes(1)));
    case 2:
    case 3:
      return FaultOf(*frontends_[world_.Pick(static_cast<int>(frontends_.size()))]);
    case 4:
      return group.FillDisk(world_.Between(absl::Seconds(1), absl::Minutes(1)));
    default:
      return group.KillRank(world_.Pick(8));
  }
}

// Every job that waits is taken by a group that has been idle as long.
void Simulation::CheckIdleGroups() {
  world_.After(absl::Seconds(1), [this] { CheckIdleGroups(); });
  const absl::Time since = world_.now() - kHears;
  CheckClaims(since);
  CheckLostRuns();
  const std::vector<JobId> waiting = ledger_.WaitingSince(since);
  if (waiting.empty()) return;
  for (const auto& frontend : frontends_) {
    if (frontend->well_since() > since) continue;
    for (const SimGroup* group : frontend->groups()) {
      if (group->idle_since() > since) continue;
      ledger_.Fail(absl::StrCat(waiting[0], " waits, but group ", group->id(), " is idle"));
    }
  }
}

// What a frontend has claimed, it runs or gives back.
void Simulation::CheckClaims(absl::Time since) {
  for (const auto& [id, owner] : ledger_.NotStartedSince(since)) {
    for (const auto& frontend : frontends_) {
      if (frontend->id() == owner && frontend->well_since() <= since)
        ledger_.Fail(absl::StrCat(id, " was claimed, but runs nowhere"));
    }
  }
}

// A frontend that is well takes over the runs that others have lost.
void Simulation::CheckLostRuns() {
  if (frontends_.size() == 1) return;
  const absl::Time since = world_.now() - kTakesOver;
  const std::vector<JobId> lost = ledger_.WithoutLeaseSince(since);
  const bool well = std::any_of(frontends_.begin(), frontends_.end(),
                                [&](const auto& frontend) { return frontend->well_since() <= since; });
  if (well && !lost.empty()) ledger_.Fail(absl::StrCat(lost[0], ": nobody takes over its run"));
}

// No run is interrupted while an idle group could take the waiting job.
void Simulation::CheckInterruption() {
  for (const auto& frontend : frontends_) {
    if (frontend->well_since() > world_.now() - kHears) continue;
    for (const SimGroup* group : frontend->groups()) {
      if (group->idle_since() > world_.now() - kHears) continue;
      ledger_.Fail(absl::StrCat("a run is interrupted, but group ", group->id(), " is idle"));
    }
  }
}

bool Simulation::Done() const {
  return world_.now() >= faults_until_ && ledger_.AllEnded() &&
         std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->ended(); });
}

SimulationResult Simulation::Run() {
  for (const auto& frontend : frontends_) KeepUp(*frontend);
  Fault();
  CheckIdleGroups();
  while (ledger_.failure().empty() && !Done()) {
    if (!world_.RunNext()) ledger_.Fail("nothing happens any more");
    if (world_.now() > faults_until_ + kLongestRecovery) {
      ledger_.Fail(absl::StrCat("an hour after the last fault: ", ledger_.Waiting()));
    }
  }
  return {.failure = ledger_.failure(),
          .notes = world_.Notes(),
          .digest = world_.digest(),
          .events = world_.events(),
          .jobs = ledger_.jobs(),
          .faults = faults_,
          .resumed = ledger_.resumed(),
          .interrupted = ledger_.interrupted()};
}

}  // namespace kinora::simulation
