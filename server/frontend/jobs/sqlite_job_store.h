// JobStore in one SQLite file. One writer thread takes all calls that wait and commits them together (group commit: one
// fsync for all of them); reader threads have connections of their own and see what is committed. A commit that fails
// fails each call in it. The file belongs to one process: hold the lock of its directory (state_directory.h). What a
// full, failing or lost disk does to it is in job_committer.h.
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
  // `path` ":memory:" keeps nothing: for --job-store=memory and tests; reads then run on the writer thread. Otherwise
  // `path` and its log are watched too, and "<path>.reserve" beside it is what deletes use on a full disk.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, const JobRules& rules,
                                                              Clock& clock, EventListener listener,
                                                              JobCommitterOptions options = {});
  ~SqliteJobStore() override;  // runs what waits, then ends

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
  void Purge(const JobId& id, Finished done) override;
  void Get(const JobId& id, Done<v1::Video> done) override;
  void List(const ListOptions& options, Done<JobPage> done) override;
  void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) override;
  void Unfinished(Done<std::vector<UnfinishedJob>> done) override;
  void SweepExpired(absl::Time now, Done<std::vector<JobId>> done) override;
  void PutModel(const v1::ModelInfo& model, Finished done) override;
  void Models(Done<std::vector<v1::ModelInfo>> done) override;
  void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) override;
  void Speeds(const std::string& place, Done<v1::SpeedHistory> done) override;
  void PutInput(const InputRecord& input, Finished done) override;
  void RemoveInput(const std::string& sha256, Finished done) override;
  void Inputs(Done<std::vector<InputRecord>> done) override;
  void Flush() override;

  // As JobCommitter's.
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
  // Loads the job, changes it, saves it with its event.
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
