#include "server/frontend/jobs/sqlite_frontend_records.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/frontend/jobs/frontend_tables.h"

namespace kinora {

void SqliteFrontendRecords::PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) {
  file_.Write(
      Room::kTakes,
      [this, frontend, lease](SqliteJobTables& tables, SqliteFile::Events&) {
        return FrontendTables(tables.database()).Put(frontend.id, frontend.address, clock_.Now() + lease);
      },
      std::move(done));
}

void SqliteFrontendRecords::EndOtherLeases(const FrontendId& id, Finished done) {
  file_.Write(
      Room::kFrees,  // few rows: as many as there are groups
      [this, id](SqliteJobTables& tables, SqliteFile::Events&) -> absl::Status {
        KINORA_RETURN_IF_ERROR(FrontendTables(tables.database()).RemoveOthers(id));
        KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, tables.LeasedToOthers(id));
        for (JobRecord& record : records) {
          record.lease_expiry = clock_.Now();
          KINORA_RETURN_IF_ERROR(tables.Update(record));
        }
        return absl::OkStatus();
      },
      std::move(done));
}

void SqliteFrontendRecords::TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) {
  file_.Write<std::vector<JobId>>(
      Room::kTakes,
      [this, id](SqliteJobTables& tables, SqliteFile::Events&) -> absl::StatusOr<std::vector<JobId>> {
        FrontendTables frontends(tables.database());
        KINORA_ASSIGN_OR_RETURN(std::vector<JobId> jobs, frontends.TiedToLost(clock_.Now()));
        for (const JobId& job : jobs) KINORA_RETURN_IF_ERROR(frontends.Tie(job, id));
        return jobs;
      },
      std::move(done));
}

}  // namespace kinora
