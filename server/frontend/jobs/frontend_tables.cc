#include "server/frontend/jobs/frontend_tables.h"

#include "engine/base/status_macros.h"

namespace kinora {

absl::Status FrontendTables::Put(const FrontendId& id, const std::string& address, absl::Time lease_expiry) {
  KINORA_ASSIGN_OR_RETURN(Statement insert,
                          database_.Prepare("INSERT OR REPLACE INTO frontends (id, address, lease_micros, checksum) "
                                            "VALUES (?1, ?2, ?3, record_checksum(?1, ?2, ?3))"));
  return insert.Bind(id).Bind(address).Bind(absl::ToUnixMicros(lease_expiry)).Run();
}

absl::Status FrontendTables::RemoveOthers(const FrontendId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement remove, database_.Prepare("DELETE FROM frontends WHERE id <> ?"));
  return remove.Bind(id).Run();
}

absl::Status FrontendTables::Tie(const JobId& job, const FrontendId& frontend) {
  KINORA_ASSIGN_OR_RETURN(Statement insert, database_.Prepare("INSERT OR REPLACE INTO ties (job, frontend, checksum) "
                                                              "VALUES (?1, ?2, record_checksum(?1, ?2))"));
  return insert.Bind(job).Bind(frontend).Run();
}

absl::Status FrontendTables::Untie(const JobId& job) {
  KINORA_ASSIGN_OR_RETURN(Statement remove, database_.Prepare("DELETE FROM ties WHERE job = ?"));
  return remove.Bind(job).Run();
}

absl::Status FrontendTables::UntieUnlessKnown(const JobId& job) {
  KINORA_ASSIGN_OR_RETURN(
      Statement remove,
      database_.Prepare("DELETE FROM ties WHERE job = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = ?1)"));
  return remove.Bind(job).Run();
}

absl::StatusOr<std::vector<JobId>> FrontendTables::TiedToLost(absl::Time now) {
  KINORA_ASSIGN_OR_RETURN(
      Statement select,
      database_.Prepare("SELECT job FROM ties WHERE frontend NOT IN (SELECT id FROM frontends WHERE lease_micros > ? "
                        "AND checksum = record_checksum(id, address, lease_micros)) "
                        "AND checksum = record_checksum(job, frontend) "
                        "AND EXISTS (SELECT 1 FROM jobs WHERE id = job AND hidden = 0) ORDER BY job"));
  select.Bind(absl::ToUnixMicros(now));
  std::vector<JobId> jobs;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return jobs;
    jobs.push_back(select.Bytes(0));
  }
}

}  // namespace kinora
