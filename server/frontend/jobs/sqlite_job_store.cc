#include "server/frontend/jobs/sqlite_job_store.h"

#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<SqliteJobStore>> SqliteJobStore::Open(const std::string& path, const JobRules& rules,
                                                                     Clock& clock, EventListener listener,
                                                                     JobCommitterOptions options) {
  KINORA_ASSIGN_OR_RETURN(auto file, SqliteFile::Open(path, clock, std::move(listener), std::move(options)));
  return std::unique_ptr<SqliteJobStore>(new SqliteJobStore(std::move(file), rules));
}

}  // namespace kinora
