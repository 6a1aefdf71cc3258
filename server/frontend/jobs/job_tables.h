// The SQL of the job store: loads and saves records, events and request ids. No transitions, no threads; the caller
// puts related calls into one transaction.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

class JobTables {
 public:
  // Opens `path`, an empty file or a store of this or an older version (job_schema.h). DataLoss: damaged;
  // FailedPrecondition: written by a newer version.
  static absl::StatusOr<std::unique_ptr<JobTables>> Open(const std::string& path);

  Database& database() { return *database_; }

  // Fails with NotFound, also for hidden jobs (ErrorInfo EXPIRED if it has expired); DataLoss if the record is damaged.
  absl::StatusOr<JobRecord> Load(const JobId& id);
  absl::Status Insert(const JobRecord& record, const std::string& fingerprint);
  absl::Status Update(const JobRecord& record);
  absl::Status AddEvent(const v1::VideoEvent& event);
  absl::StatusOr<std::vector<v1::VideoEvent>> EventsAfter(const JobId& id, int64_t sequence);

  struct RequestKey {
    JobId id;
    std::string fingerprint;
  };
  absl::StatusOr<std::optional<RequestKey>> FindRequest(const std::string& request_id);

  // job_listing.h
  absl::StatusOr<JobPage> List(const ListOptions& options);
  // Skips and logs damaged records, so that they do not block other jobs.
  absl::StatusOr<std::vector<JobRecord>> Unfinished();
  absl::StatusOr<std::vector<JobRecord>> LeasedToOthers(const FrontendId& owner);  // skips damaged records

  // Reads all jobs and models and logs the damaged ones. Such a job can only be hidden.
  absl::Status LogDamaged();
  absl::StatusOr<bool> Knows(const JobId& id);  // includes hidden and damaged jobs

  absl::Status Hide(const JobId& id);
  absl::Status HideExpired(absl::Time now);
  absl::StatusOr<std::vector<JobId>> Hidden();
  // Removes a hidden job with its events. The id of an expired job is kept for 30 days, so that NotFound carries
  // EXPIRED.
  absl::Status Purge(const JobId& id, absl::Time now);

 private:
  explicit JobTables(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status CheckTables();
  absl::Status Seal(const JobId& id);                              // writes the record's checksum
  absl::Status NotFound(const JobId& id, const char* field = "");  // field: "NAME: " of a request, or none

  std::unique_ptr<Database> database_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_
