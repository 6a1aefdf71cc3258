// Opens the module of a database (sql_driver.h).
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_SQL_MODULE_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_SQL_MODULE_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/frontend/postgres/sql_driver.h"

namespace kinora {

// Opens the module at `path`, or kinora-postgresql.so beside this program or in ../lib/kinora/modules from there. It
// stays open. FailedPrecondition, with what to install, if it cannot be opened or belongs to another version.
absl::StatusOr<const SqlDriver*> OpenPostgresDriver(std::string path = "");

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_SQL_MODULE_H_
