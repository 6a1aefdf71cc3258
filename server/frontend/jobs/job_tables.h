// What a database stores of jobs: records, events and request IDs. TableJobStore (table_job_store.h) applies the
// transitions of job_record.h to it; each database has an implementation in its own SQL.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

// The tables within one transaction, which its user must not keep. Errors: as JobStore. After Unavailable or
// ResourceExhausted the transaction is lost.
class JobTables {
 public:
  struct RequestKey {
    JobId id;
    std::string fingerprint;
  };

  virtual ~JobTables() = default;

  virtual absl::Time Now() = 0;  // by the clock that leases obey

  // NotFound, also for hidden jobs (ErrorInfo EXPIRED if it has expired); DataLoss if the record is damaged. No other
  // transaction changes a job that was loaded in a transaction that writes.
  virtual absl::StatusOr<JobRecord> Load(const JobId& id) = 0;
  // event: the first. tied_to: the frontend that holds the job's client; only if the record is not detached.
  virtual absl::Status Insert(const JobRecord& record, const std::string& fingerprint, const v1::VideoEvent& event,
                              const FrontendId& tied_to) = 0;
  // Saves a record that was loaded, and `event` unless it has no case. A job that has ended is tied to no frontend, and
  // hidden if its deletion was requested.
  virtual absl::Status Save(const JobRecord& record, const v1::VideoEvent& event) = 0;
  virtual absl::StatusOr<std::vector<v1::VideoEvent>> EventsAfter(const JobId& id, int64_t sequence) = 0;
  virtual absl::StatusOr<std::optional<RequestKey>> FindRequest(const std::string& request_id) = 0;

  virtual absl::StatusOr<JobPage> List(const ListOptions& options) = 0;  // as JobStore::List
  // These skip damaged records, and log them, so that they do not block other jobs. Oldest first.
  virtual absl::StatusOr<std::vector<JobRecord>> Unfinished() = 0;
  virtual absl::StatusOr<std::vector<JobRecord>> LostRuns(const FrontendId& owner) = 0;  // as JobStore::LostRuns
  // Whether attempts whose leases are over count as lost. Not where a database was away, so that no frontend could
  // renew a lease.
  virtual bool LeasesCount() = 0;

  virtual absl::StatusOr<bool> Knows(const JobId& id) = 0;  // includes hidden and damaged jobs
  virtual absl::Status Hide(const JobId& id) = 0;
  virtual absl::Status HideExpired(absl::Time now) = 0;
  virtual absl::StatusOr<std::vector<JobId>> Hidden() = 0;
  // Removes a hidden job with its events. The ID of an expired job is kept for kKeepExpiredIds, so that NotFound
  // carries EXPIRED.
  static constexpr absl::Duration kKeepExpiredIds = absl::Hours(24 * 30);
  virtual absl::Status Purge(const JobId& id) = 0;
};

enum class Room { kTakes, kFrees };  // kFrees: ends or removes a job, and may use space that is kept for that

// Runs transactions. Thread-safe.
class JobTransactions {
 public:
  using Events = std::vector<v1::VideoEvent>;

  virtual ~JobTransactions() = default;

  // Runs `apply` in a transaction, and `done` after the commit with the status of either. `apply` adds the events that
  // it stores; it may run again. Calls about one job take effect in the order in which they were made.
  virtual void WriteJob(const JobId& id, Room room, absl::AnyInvocable<absl::Status(JobTables&, Events&)> apply,
                        Finished done) = 0;
  // Runs `read` on committed data; it may run again.
  virtual void ReadJobs(absl::AnyInvocable<absl::Status(JobTables&)> read, Finished done) = 0;
  virtual void Flush() = 0;  // as JobStore::Flush
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_
