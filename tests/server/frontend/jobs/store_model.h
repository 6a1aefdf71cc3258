// What the stores must answer, as a small program in memory: the executable model that random_operations_test.cc
// compares every store with. It is written from the contracts of JobStore, CatalogueStore, InputRecords and
// FrontendRecords, and shares no code with an implementation. One call at a time; the answer is the return value.
#ifndef KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_MODEL_H_
#define KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_MODEL_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/frontend/inputs/input_records.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "tests/testing/fake_clock.h"

namespace kinora {

class StoreModel {
 public:
  StoreModel(const JobRules& rules, const FakeClock& clock) : rules_(rules), clock_(clock) {}

  // new_id: of the job, if one is created.
  absl::StatusOr<Created> Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double seconds,
                                 const JobId& new_id);
  absl::StatusOr<Created> FindCreated(const v1::CreateVideoRequest& request) const;
  absl::StatusOr<Claimed> Claim(const JobId& id, const std::string& owner, absl::Duration lease);
  absl::StatusOr<Lease> Renew(const Attempt& attempt, absl::Duration lease);
  absl::Status Append(const Attempt& attempt, const v1::VideoEvent& event);
  absl::StatusOr<std::optional<v1::ResumeMark>> PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point);
  absl::Status Finish(const Attempt& attempt, const Outcome& outcome);
  absl::StatusOr<v1::Video> Requeue(const Attempt& attempt, const Release& release);
  absl::StatusOr<v1::Video> Cancel(const JobId& id);
  absl::StatusOr<v1::Video> FailQueued(const JobId& id, const google::rpc::Status& error);
  absl::Status Delete(const JobId& id);
  absl::StatusOr<bool> CancelAndDelete(const JobId& id);
  absl::Status Purge(const JobId& id);
  absl::StatusOr<v1::Video> Get(const JobId& id) const;
  // All pages together.
  absl::StatusOr<std::vector<v1::Video>> List(const ListOptions& options) const;
  absl::StatusOr<JobHistory> EventsAfter(const JobId& id, int64_t sequence) const;
  std::vector<UnfinishedJob> Unfinished() const;
  std::vector<UnfinishedJob> LostRuns(const FrontendId& owner) const;
  void PutFrontend(const FrontendId& id, absl::Duration lease) { frontends_[id] = clock_.Now() + lease; }
  void EndOtherLeases(const FrontendId& id);
  std::vector<JobId> TakeLostClients(const FrontendId& id);
  std::vector<JobId> Unknown(const std::vector<JobId>& ids) const;
  std::vector<JobId> SweepExpired(absl::Time now);

  std::map<std::string, v1::ModelInfo> models;
  std::map<std::string, std::vector<v1::RunSpeed>> speeds;  // by place; AddSpeed keeps the last ones
  void AddSpeed(const std::string& place, const v1::RunSpeed& run);
  std::map<std::string, InputRecord> inputs;

  const std::vector<v1::VideoEvent>& heard() const { return heard_; }  // all stored events, in commit order
  // The job's newest attempt, current or not; number 0 if the id is unknown.
  Attempt NewestAttempt(const JobId& id) const;

 private:
  enum class Seen { kShown, kDeleted, kExpired };
  struct Job {
    v1::Video video;
    v1::CreateVideoRequest content;  // the request without request_id and detach
    v1::Scheduling scheduling;
    bool detach = false;
    FrontendId client_at;  // unless `detach`
    std::string owner;     // of the current attempt; empty: there is none
    absl::Time lease_expiry, queued_since;
    bool cancel_requested = false, delete_at_end = false;
    int lost_groups = 0;
    std::optional<v1::ResumeMark> resume;
    std::vector<v1::VideoEvent> events;
    Seen seen = Seen::kShown;
  };

  const Job* Find(const JobId& id) const;
  Job* Find(const JobId& id) { return const_cast<Job*>(std::as_const(*this).Find(id)); }
  absl::Status NotFound(const JobId& id) const;
  const Job* CreatedWith(const std::string& request_id) const;
  absl::StatusOr<Job*> Shown(const JobId& id);
  absl::StatusOr<Job*> Current(const Attempt& attempt);
  v1::VideoEvent NewEvent(const Job& job) const;
  void AddEvent(Job& job, v1::VideoEvent event);
  void AddStateEvent(Job& job);
  void CountQueueTime(Job& job) const;
  static void SetResume(Job& job, std::optional<v1::ResumeMark> resume);
  void End(Job& job, v1::Video::State state);

  const JobRules rules_;
  const FakeClock& clock_;
  std::vector<Job> jobs_;                       // in order of creation; those that were purged are gone
  std::map<JobId, absl::Time> expired_;         // jobs that expired and were purged, and when
  std::map<FrontendId, absl::Time> frontends_;  // and when their leases end
  std::vector<v1::VideoEvent> heard_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_MODEL_H_
