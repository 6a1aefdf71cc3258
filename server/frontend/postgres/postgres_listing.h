// Pages of PostgresJobTables::List.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_LISTING_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_LISTING_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "server/frontend/jobs/job_listing.h"
#include "server/frontend/postgres/sql_session.h"

namespace kinora {

// $1: only ordinals below this, or above it if ascending; $2: a bit per state; $3: the limit; by prefix also $4: the
// prefix, and $5: the first text after all that begin with it.
const char* PostgresListStatement(const ListQuery& query);

// As ListJobs (job_listing.h).
absl::StatusOr<JobPage> ListPostgresJobs(SqlTransaction& transaction, const ListOptions& options,
                                         std::optional<int64_t> after);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_LISTING_H_
