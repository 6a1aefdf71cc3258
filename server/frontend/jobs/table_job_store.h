// JobStore on the tables of a database (job_tables.h): applies the transitions of job_record.h, each in a transaction.
#ifndef KINORA_SERVER_FRONTEND_JOBS_TABLE_JOB_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_TABLE_JOB_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/job_tables.h"

namespace kinora {

class TableJobStore : public JobStore {
 public:
  TableJobStore(JobTransactions& transactions, const JobRules& rules) : rules_(rules), transactions_(transactions) {}

  void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double estimated_seconds,
              Done<Created> done) override;
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
  void Flush() override { transactions_.Flush(); }

 private:
  using Events = JobTransactions::Events;

  // As JobTransactions::WriteJob and ReadJobs, with a result.
  template <typename T, typename Apply>
  void Write(const JobId& id, Room room, Apply apply, Done<T> done);
  template <typename T, typename Reading>
  void Read(Reading read, Done<T> done);
  // Loads the job, applies `transition`, and saves the job and its event.
  template <typename Transition>
  static absl::StatusOr<JobRecord> Change(JobTables& tables, Events& events, const JobId& id, Transition transition);
  template <typename Transition>
  void ChangeJob(const JobId& id, Room room, Transition transition, Done<JobRecord> done);

  const JobRules rules_;
  JobTransactions& transactions_;  // not owned
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_TABLE_JOB_STORE_H_
