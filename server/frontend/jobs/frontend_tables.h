// The SQL of frontends and of the jobs tied to their clients. The caller puts related calls into one transaction.
#ifndef KINORA_SERVER_FRONTEND_JOBS_FRONTEND_TABLES_H_
#define KINORA_SERVER_FRONTEND_JOBS_FRONTEND_TABLES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

class FrontendTables {
 public:
  explicit FrontendTables(Database& database) : database_(database) {}

  absl::Status Put(const FrontendId& id, const std::string& address, absl::Time lease_expiry);
  absl::Status RemoveOthers(const FrontendId& id);

  absl::Status Tie(const JobId& job, const FrontendId& frontend);
  absl::Status Untie(const JobId& job);
  absl::Status UntieUnlessKnown(const JobId& job);  // if there is no such job
  // Skips damaged ties, so that no job is cancelled for one.
  absl::StatusOr<std::vector<JobId>> TiedToLost(absl::Time now);

 private:
  Database& database_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_FRONTEND_TABLES_H_
