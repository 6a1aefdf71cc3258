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

// Frontends tell each other of new work, cancelled runs and jobs that have ended by NOTIFY on this channel, with the
// job's ID as the payload.
inline constexpr char kPostgresChannel[] = "kinora";

class PostgresJobTables : public JobTables {
 public:
  // grace: for how long after the server's start leases do not count. settled: whether they would count otherwise.
  // Neither matters if no lost runs are asked for.
  PostgresJobTables(SqlTransaction& transaction, absl::Duration grace, bool settled)
      : transaction_(transaction), grace_(grace), settled_(settled) {}

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
  const absl::Duration grace_;
  const bool settled_;
  std::map<JobId, std::string> loaded_;  // column `video` of loaded jobs
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_JOB_TABLES_H_
