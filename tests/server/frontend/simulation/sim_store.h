// A frontend's connection to the shared database: it can fail, and its answers are lost with the frontend.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_STORE_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_STORE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/frontend/jobs/job_store.h"
#include "tests/server/frontend/jobs/memory_job_store.h"
#include "tests/server/frontend/jobs/memory_stores.h"
#include "tests/server/frontend/simulation/ledger.h"
#include "tests/server/frontend/simulation/world.h"

namespace kinora::simulation {

class Database {
 public:
  Database(World& world, Ledger& ledger)
      : world_(world),
        loop_(world, absl::Milliseconds(20)),
        jobs_(
            Ledger::kRules, world.clock(),
            [this, &ledger](const v1::VideoEvent& event) {
              ledger.Stored(event);
              for (const auto& listener : listeners_) Tell([&] { listener.second(event); });
            },
            loop_, [this] { return absl::StrCat("job", ++last_job_); }) {}

  MemoryJobStore& jobs() { return jobs_; }
  MemoryCatalogueStore& catalogue() { return catalogue_; }
  // News gets lost and doubled. A frontend alone hears of every event.
  void LoseNews() { loses_news_ = true; }
  // hear: events that were committed; hear_cancel: the cancellation of a run was, which is no event.
  void AddListener(const std::string& name, EventListener hear, std::function<void()> hear_cancel) {
    listeners_[name] = std::move(hear);
    cancel_listeners_[name] = std::move(hear_cancel);
  }
  void RemoveListener(const std::string& name) {
    listeners_.erase(name);
    cancel_listeners_.erase(name);
  }
  void TellCancel() const {
    for (const auto& [name, hear] : cancel_listeners_) Tell(hear);
  }

 private:
  void Tell(const std::function<void()>& hear) const {
    if (loses_news_ && world_.Chance(0.2)) return;
    hear();
    if (loses_news_ && world_.Chance(0.1)) hear();
  }

  World& world_;
  bool loses_news_ = false;
  SimExecutor loop_;
  int last_job_ = 0;
  std::map<std::string, EventListener> listeners_;  // by the frontend's name
  std::map<std::string, std::function<void()>> cancel_listeners_;
  MemoryJobStore jobs_;
  MemoryCatalogueStore catalogue_{loop_};
};

class StoreConnection : public JobStore, public FrontendRecords {
 public:
  StoreConnection(World& world, MemoryJobStore& store) : world_(world), store_(store) {}
  ~StoreConnection() override { *alive_ = false; }

  // Until then no call takes effect, as on a full disk.
  void FailUntil(absl::Time time) { fails_until_ = time; }

  void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double seconds,
              Done<Created> done) override {
    Forward(std::move(done), [&](auto next) { store_.Create(request, effective, seconds, std::move(next)); });
  }
  void FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) override {
    Forward(std::move(done), [&](auto next) { store_.FindCreated(request, std::move(next)); });
  }
  void Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) override {
    Forward(std::move(done), [&](auto next) { store_.Claim(id, owner, lease, std::move(next)); });
  }
  void Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) override {
    Forward(std::move(done), [&](auto next) { store_.Renew(attempt, lease, std::move(next)); });
  }
  void Append(const Attempt& attempt, const v1::VideoEvent& event, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.Append(attempt, event, std::move(next)); });
  }
  void PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                      Done<std::optional<v1::ResumeMark>> done) override {
    Forward(std::move(done), [&](auto next) { store_.PutResumePoint(attempt, point, std::move(next)); });
  }
  void Finish(const Attempt& attempt, const Outcome& outcome, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.Finish(attempt, outcome, std::move(next)); });
  }
  void Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) override {
    Forward(std::move(done), [&](auto next) { store_.Requeue(attempt, release, std::move(next)); });
  }
  void Cancel(const JobId& id, Done<v1::Video> done) override {
    Forward(std::move(done), [&](auto next) { store_.Cancel(id, std::move(next)); });
  }
  void FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) override {
    Forward(std::move(done), [&](auto next) { store_.FailQueued(id, error, std::move(next)); });
  }
  void Delete(const JobId& id, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.Delete(id, std::move(next)); });
  }
  void CancelAndDelete(const JobId& id, Done<bool> done) override {
    Forward(std::move(done), [&](auto next) { store_.CancelAndDelete(id, std::move(next)); });
  }
  void Purge(const JobId& id, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.Purge(id, std::move(next)); });
  }
  void Get(const JobId& id, Done<v1::Video> done) override {
    Forward(std::move(done), [&](auto next) { store_.Get(id, std::move(next)); });
  }
  void List(const ListOptions& options, Done<JobPage> done) override {
    Forward(std::move(done), [&](auto next) { store_.List(options, std::move(next)); });
  }
  void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) override {
    Forward(std::move(done), [&](auto next) { store_.EventsAfter(id, sequence, std::move(next)); });
  }
  void Unfinished(Done<std::vector<UnfinishedJob>> done) override {
    Forward(std::move(done), [&](auto next) { store_.Unfinished(std::move(next)); });
  }
  void LostRuns(const FrontendId& owner, Done<std::vector<UnfinishedJob>> done) override {
    Forward(std::move(done), [&](auto next) { store_.LostRuns(owner, std::move(next)); });
  }
  void Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) override {
    Forward(std::move(done), [&](auto next) { store_.Unknown(std::move(ids), std::move(next)); });
  }
  void SweepExpired(absl::Time now, Done<std::vector<JobId>> done) override {
    Forward(std::move(done), [&](auto next) { store_.SweepExpired(now, std::move(next)); });
  }
  void PutFrontend(const FrontendId& id, const std::string& address, absl::Duration lease, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.PutFrontend(id, address, lease, std::move(next)); });
  }
  void EndOtherLeases(const FrontendId& id, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.EndOtherLeases(id, std::move(next)); });
  }
  void TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) override {
    Forward(std::move(done), [&](auto next) { store_.TakeLostClients(id, std::move(next)); });
  }
  void Flush() override { KINORA_CHECK(false) << "nothing blocks in a simulation"; }

 private:
  template <typename Result, typename Call>
  void Forward(absl::AnyInvocable<void(Result)> done, Call call) {
    absl::AnyInvocable<void(Result)> guarded = [alive = alive_, done = std::move(done)](Result result) mutable {
      if (*alive) done(std::move(result));
    };
    if (world_.now() >= fails_until_) return call(std::move(guarded));
    world_.After(absl::Milliseconds(5),
                 [guarded = std::move(guarded)]() mutable { guarded(absl::UnavailableError("the disk is full")); });
  }

  World& world_;
  MemoryJobStore& store_;
  absl::Time fails_until_ = absl::InfinitePast();
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_STORE_H_
