// JobTables in PostgreSQL (postgres_schema.cc), within one transaction of SqlSession.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_JOB_TABLES_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_JOB_TABLES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/frontend/jobs/job_tables.h"
#include "server/frontend/postgres/sql_session.h"

namespace kinora {

class PostgresJobTables : public JobTables {
 public:
  // Leases count once this has passed since the server's start, and unless this is left of another grace.
  struct Grace {
    absl::Duration after_start = absl::ZeroDuration(), left = absl::ZeroDuration();
  };
  PostgresJobTables(SqlTransaction& transaction, const Grace& grace) : transaction_(transaction), grace_(grace) {}

  absl::Time Now() override;
  absl::StatusOr<JobRecord> Load(const JobId& id) override;
  absl::Status Insert(const JobRecord& record, const std::string& fingerprint, const v1::VideoEvent& event,
                      const FrontendId& tied_to) override;
  absl::Status Save(const JobRecord& record, const v1::VideoEvent& event) override;
  absl::StatusOr<std::vector<v1::VideoEvent>> EventsAfter(const JobId& id, int64_t sequence) override;
  absl::StatusOr<std::optional<RequestKey>> FindRequest(const std::string& request_id) override;
  absl::StatusOr<JobPage> List(const ListOptions& options) override;
  absl::StatusOr<std::vector<JobRecord>> Unfinished() override;
  absl::StatusOr<std::vector<JobRecord>> LostRuns(const FrontendId& owner) override;
  bool LeasesCount() override;
  absl::StatusOr<bool> Knows(const JobId& id) override;
  absl::Status Hide(const JobId& id) override;
  absl::Status HideExpired(absl::Time now) override;
  absl::StatusOr<std::vector<JobId>> Hidden() override;
  absl::Status Purge(const JobId& id) override;

 private:
  absl::Status NotFound(const JobId& id, const char* field = "");  // field: "NAME: " of a request, or none

  SqlTransaction& transaction_;
  const Grace grace_;
  std::map<JobId, std::string> loaded_;  // column `video` of loaded jobs
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_JOB_TABLES_H_
