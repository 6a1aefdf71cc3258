// A frontend's connection to the shared database (sim_database.h): it can fail, and its answers are lost with the
// frontend.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_STORE_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "server/frontend/jobs/job_store.h"
#include "tests/server/frontend/jobs/memory_job_store.h"
#include "tests/server/frontend/simulation/ledger.h"
#include "tests/server/frontend/simulation/world.h"

namespace kinora::simulation {

class StoreConnection : public JobStore, public FrontendRecords {
 public:
  StoreConnection(World& world, Ledger& ledger, MemoryJobStore& store, FrontendId frontend)
      : world_(world), ledger_(ledger), store_(store), frontend_(std::move(frontend)) {}
  ~StoreConnection() override { *alive_ = false; }

  // Until then no call takes effect, as on a full disk.
  void FailUntil(absl::Time time) { fails_until_ = time; }
  // Runs once, when a claim has taken effect and is about to be answered.
  void AtClaim(std::function<void()> task) { at_claim_ = std::move(task); }
  // Until then calls take effect, but no answer comes back.
  void LoseAnswersUntil(absl::Time time) { loses_answers_until_ = time; }

  void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double seconds,
              Done<Created> done) override {
    Forward(std::move(done),
            [&](auto next) { store_.CreateAt(frontend_, request, effective, seconds, std::move(next)); });
  }
  void FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) override {
    Forward(std::move(done), [&](auto next) { store_.FindCreated(request, std::move(next)); });
  }
  void Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) override {
    Forward(std::move(done), [&](auto next) {
      store_.Claim(id, owner, lease,
                   [this, alive = alive_, &ledger = ledger_, &world = world_, lease,
                    next = std::move(next)](absl::StatusOr<Claimed> claimed) mutable {
                     if (claimed.ok()) {
                       ledger.Leased(claimed->attempt.id, claimed->attempt.number, world.now() + lease);
                       ledger.Claimed(claimed->attempt.id, claimed->attempt.owner);
                     }
                     if (*alive && at_claim_ != nullptr) std::exchange(at_claim_, nullptr)();
                     next(std::move(claimed));
                   });
    });
  }
  void Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) override {
    Forward(std::move(done), [&](auto next) {
      store_.Renew(attempt, lease,
                   [&ledger = ledger_, attempt, next = std::move(next)](absl::StatusOr<Lease> renewed) mutable {
                     if (renewed.ok()) ledger.Leased(attempt.id, attempt.number, renewed->expiry);
                     next(std::move(renewed));
                   });
    });
  }
  void Append(const Attempt& attempt, const v1::VideoEvent& event, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.Append(attempt, event, std::move(next)); });
  }
  void PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                      Done<std::optional<v1::ResumeMark>> done) override {
    Forward(std::move(done), [&](auto next) {
      const bool forgets = point.id().empty();
      store_.PutResumePoint(attempt, point,
                            [&ledger = ledger_, attempt, forgets, next = std::move(next)](auto replaced) mutable {
                              if (replaced.ok() && !forgets) ledger.PointStored(attempt.id, attempt.number);
                              next(std::move(replaced));
                            });
    });
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
  void PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) override {
    Forward(std::move(done), [&](auto next) { store_.PutFrontend(frontend, lease, std::move(next)); });
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
    if (world_.now() < loses_answers_until_) {
      guarded = [guarded = std::move(guarded)](const Result&) mutable {
        guarded(absl::UnavailableError("the connection broke"));
      };
    }
    if (world_.now() >= fails_until_) return call(std::move(guarded));
    world_.After(absl::Milliseconds(5),
                 [guarded = std::move(guarded)]() mutable { guarded(absl::UnavailableError("the disk is full")); });
  }

  World& world_;
  Ledger& ledger_;
  MemoryJobStore& store_;
  const FrontendId frontend_;
  std::function<void()> at_claim_;
  absl::Time fails_until_ = absl::InfinitePast(), loses_answers_until_ = absl::InfinitePast();
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_STORE_H_
