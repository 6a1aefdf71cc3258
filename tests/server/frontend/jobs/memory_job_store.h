// JobStore and FrontendRecords in memory, for the simulation (tests/server/frontend/simulation). Each call is one task
// of an executor, so calls take effect in the order in which they were made, and `done` runs there.
#ifndef KINORA_TESTS_SERVER_FRONTEND_JOBS_MEMORY_JOB_STORE_H_
#define KINORA_TESTS_SERVER_FRONTEND_JOBS_MEMORY_JOB_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/executor.h"

namespace kinora {

class MemoryJobStore : public JobStore, public FrontendRecords {
 public:
  // executor: must outlive the store and be stopped before it is destroyed. new_id: draws the IDs of jobs.
  MemoryJobStore(const JobRules& rules, Clock& clock, EventListener listener, Executor& executor,
                 std::function<JobId()> new_id);

  void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double estimated_seconds,
              Done<Created> done) override;
  // As Create, by this frontend instead of JobRules::frontend.
  void CreateAt(const FrontendId& client_at, const v1::CreateVideoRequest& request, const v1::Generation& effective,
                double estimated_seconds, Done<Created> done);
  void FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) override;
  void Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) override;
  void Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) override;
  void Append(const Attempt& attempt, const v1::VideoEvent& event, Finished done) override;
  void PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                      Done<std::optional<v1::ResumeMark>> done) override;
  void Finish(const Attempt& attempt, const Outcome& outcome, Finished done) override;
  void Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) override;
  void Cancel(const JobId& id, Done<v1::Video> done) override;
  void FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) override;
  void Delete(const JobId& id, Finished done) override;
  void CancelAndDelete(const JobId& id, Done<bool> done) override;
  void Purge(const JobId& id, Finished done) override;
  void Get(const JobId& id, Done<v1::Video> done) override;
  void List(const ListOptions& options, Done<JobPage> done) override;
  void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) override;
  void Unfinished(Done<std::vector<UnfinishedJob>> done) override;
  void LostRuns(const FrontendId& owner, Done<std::vector<UnfinishedJob>> done) override;
  void Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) override;
  void SweepExpired(absl::Time now, Done<std::vector<JobId>> done) override;
  void Flush() override;

  void PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) override;
  void EndOtherLeases(const FrontendId& id, Finished done) override;
  void TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) override;

 private:
  enum class Hidden : uint8_t { kNo, kDeleted, kExpired };
  struct Job {
    JobRecord record;
    std::string fingerprint;
    std::vector<v1::VideoEvent> events;
    Hidden hidden = Hidden::kNo;
    FrontendId client_at{};  // unless record.detach
  };
  using Jobs = std::map<int64_t, Job>;  // by ordinal, in order of creation

  // Runs `call` as a task, and passes its result to `done`.
  template <typename Result, typename Call>
  void Run(Call call, Result done);
  absl::StatusOr<Job*> Find(const JobId& id, const char* field = "");  // NotFound, also for hidden jobs
  // Applies a transition of job_record.h and stores its event.
  template <typename Transition>
  absl::Status Change(Job& job, Transition transition);
  void Store(Job& job, const v1::VideoEvent& event);
  void Hide(Job& job, Hidden how);
  absl::StatusOr<std::optional<Created>> CreatedBefore(const v1::CreateVideoRequest& request,
                                                       const std::string& fingerprint);
  absl::StatusOr<JobPage> ListPage(const ListOptions& options);
  std::vector<UnfinishedJob> AllUnfinished() const;

  const JobRules rules_;
  Clock& clock_;
  const EventListener listener_;
  Executor& executor_;
  const std::function<JobId()> new_id_;
  int64_t last_ordinal_ = 0;
  Jobs jobs_;
  std::unordered_map<JobId, Jobs::iterator> by_id_;
  std::unordered_map<std::string, Jobs::iterator> by_request_;
  std::map<FrontendId, absl::Time> frontends_;  // and the ends of their leases
  std::map<JobId, absl::Time> expired_;         // purged jobs that had expired, and when they were purged
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_MEMORY_JOB_STORE_H_
