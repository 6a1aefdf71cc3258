// JobStore in one SQLite file. One writer thread commits all waiting calls together (group commit: one fsync for all of
// them); reader threads have their own connections and see committed data. A failed commit fails each of its calls. The
// file belongs to one process, which must hold the lock of its directory (state_directory.h). job_committer.h describes
// how it handles a full, failing or lost disk.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/frontend/jobs/job_committer.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/job_tables.h"

namespace kinora {

class SqliteJobStore : public JobStore {
 public:
  // `path` ":memory:" stores nothing on disk, for --job-store=memory and tests; reads then run on the writer thread.
  // Otherwise options.watch also watches `path` and its log, "<path>.reserve" is disk space for deletes on a full disk,
  // and "<path>.commits" has the number of the last commit (commit_mark.h). DataLoss also if commits are missing.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, const JobRules& rules,
                                                              Clock& clock, EventListener listener,
                                                              JobCommitterOptions options = {});
  ~SqliteJobStore() override;  // finishes pending calls first

  void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double estimated_seconds,
              Done<Created> done) override;
  void FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) override;
  void Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) override;
  void Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) override;
  void Append(const Attempt& attempt, const v1::VideoEvent& event, Finished done) override;
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
  void Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) override;
  void SweepExpired(absl::Time now, Done<std::vector<JobId>> done) override;
  void PutModel(const v1::ModelInfo& model, Finished done) override;
  void Models(Done<std::vector<v1::ModelInfo>> done) override;
  void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) override;
  void Speeds(const std::string& place, Done<v1::SpeedHistory> done) override;
  void PutInput(const InputRecord& input, Finished done) override;
  void RemoveInput(const std::string& sha256, Finished done) override;
  void Inputs(Done<std::vector<InputRecord>> done) override;
  void Flush() override;

  // As in JobCommitter.
  absl::Status CheckState() { return committer_->CheckState(); }
  absl::Duration Unwritable() const { return committer_->Unwritable(); }

 private:
  using Events = StoreWrite::Events;
  using Read = absl::AnyInvocable<void(JobTables&)>;

  SqliteJobStore(const JobRules& rules, Clock& clock) : rules_(rules), clock_(clock) {}

  template <typename T>
  void PostWrite(Room room, absl::AnyInvocable<absl::StatusOr<T>(JobTables&, Events&)> apply, Done<T> done);
  void PostWrite(Room room, absl::AnyInvocable<absl::Status(JobTables&, Events&)> apply, Finished done);
  template <typename T>
  void PostRead(absl::AnyInvocable<absl::StatusOr<T>(JobTables&)> read, Done<T> done);
  // Loads the job, applies `transition`, and saves the job and its event. Hides a job that has ended and was to be
  // deleted.
  template <typename Transition>
  absl::StatusOr<JobRecord> Change(JobTables& tables, Events& events, const JobId& id, Transition transition);

  void RunWriter();
  void RunReader(JobTables& tables);

  const JobRules rules_;
  Clock& clock_;
  std::unique_ptr<JobCommitter> committer_;
  std::vector<std::unique_ptr<JobTables>> reader_tables_;

  absl::Mutex mu_;
  std::deque<StoreWrite> writes_ ABSL_GUARDED_BY(mu_);
  std::deque<Read> reads_ ABSL_GUARDED_BY(mu_);
  int64_t pending_ ABSL_GUARDED_BY(mu_) = 0;  // calls whose `done` has not returned
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread writer_;
  std::vector<std::thread> readers_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_
