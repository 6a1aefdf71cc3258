// JobStore in a SQLite file (sqlite_file.h), which it opens and owns. Other stores can be in the same file.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite_file.h"

namespace kinora {

class SqliteJobStore : public JobStore {
 public:
  // `path` and errors: as in SqliteFile::Open.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, const JobRules& rules,
                                                              Clock& clock, EventListener listener,
                                                              JobCommitterOptions options = {});

  SqliteFile& file() { return *file_; }  // destroyed with the store, after pending calls

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
  void Flush() override { file_->Flush(); }

 private:
  using Events = SqliteFile::Events;

  SqliteJobStore(std::unique_ptr<SqliteFile> file, const JobRules& rules, Clock& clock)
      : rules_(rules), clock_(clock), file_(std::move(file)) {}

  // Loads the job, applies `transition`, and saves the job and its event. Hides a job that has ended and was to be
  // deleted.
  template <typename Transition>
  absl::StatusOr<JobRecord> Change(JobTables& tables, Events& events, const JobId& id, Transition transition);

  const JobRules rules_;
  Clock& clock_;
  const std::unique_ptr<SqliteFile> file_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_
