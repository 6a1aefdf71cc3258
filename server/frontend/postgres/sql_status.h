// Errors of a database as Status, and what they mean for a transaction.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_SQL_STATUS_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_SQL_STATUS_H_

#include "absl/status/status.h"
#include "server/frontend/postgres/sql_driver.h"

namespace kinora {

// Errors as store_call.h has them: Unavailable (away, busy for too long, or refuses what it should not: try again),
// ResourceExhausted (its disk is full), DataLoss; Internal for a value that no statement of ours should have.
absl::Status ToStatus(const SqlError& error);
// Whether the connection can no longer be used: it was lost, or its server has become read-only.
bool LosesConnection(const SqlError& error);
// Whether the same transaction may succeed if it is run again, because another one was in its way.
bool MayBeRepeated(const SqlError& error);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_SQL_STATUS_H_
