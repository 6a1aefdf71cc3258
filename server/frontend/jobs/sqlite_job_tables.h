// JobTables in SQLite. No threads; the caller puts related calls into one transaction.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_TABLES_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_TABLES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "server/frontend/jobs/job_tables.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

class SqliteJobTables : public JobTables {
 public:
  // Opens `path`, an empty file or a store of this or an older version (job_schema.h). DataLoss: damaged;
  // FailedPrecondition: written by a newer version.
  static absl::StatusOr<std::unique_ptr<SqliteJobTables>> Open(const std::string& path, Clock& clock = Clock::Real());

  Database& database() { return *database_; }

  absl::Time Now() override { return clock_.Now(); }
  absl::StatusOr<JobRecord> Load(const JobId& id) override;
  absl::Status Insert(const JobRecord& record, const std::string& fingerprint, const v1::VideoEvent& event,
                      const FrontendId& tied_to) override;
  absl::Status Save(const JobRecord& record, const v1::VideoEvent& event) override;
  absl::StatusOr<std::vector<v1::VideoEvent>> EventsAfter(const JobId& id, int64_t sequence) override;
  absl::StatusOr<std::optional<RequestKey>> FindRequest(const std::string& request_id) override;
  absl::StatusOr<JobPage> List(const ListOptions& options) override;  // job_listing.h
  absl::StatusOr<std::vector<JobRecord>> Unfinished() override;
  absl::StatusOr<std::vector<JobRecord>> LostRuns(const FrontendId& owner) override;
  bool LeasesCount() override { return true; }
  absl::StatusOr<bool> Knows(const JobId& id) override;
  absl::Status Hide(const JobId& id) override;
  absl::Status HideExpired(absl::Time now) override;
  absl::StatusOr<std::vector<JobId>> Hidden() override;
  absl::Status Purge(const JobId& id) override;

  absl::Status Update(const JobRecord& record);
  absl::StatusOr<std::vector<JobRecord>> LeasedToOthers(const FrontendId& owner);  // skips damaged records
  absl::Status AddEvent(const JobId& id, int64_t sequence, const std::string& event);
  absl::Status Seal(const JobId& id);  // writes the record's checksum
  // Reads all jobs and models and logs the damaged ones. Such a job can only be hidden.
  absl::Status LogDamaged();

 private:
  SqliteJobTables(std::unique_ptr<Database> database, Clock& clock) : database_(std::move(database)), clock_(clock) {}
  absl::Status CheckTables();
  absl::Status NotFound(const JobId& id, const char* field = "");  // field: "NAME: " of a request, or none

  std::unique_ptr<Database> database_;
  Clock& clock_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_TABLES_H_
