// The schema `kinora` in a PostgreSQL database, of version 15 or later.
//
// Frontends of this version and of the one before it serve together while they are upgraded, so a step only adds: an
// older frontend can use a newer schema unless that says otherwise (column oldest_reader).
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_SCHEMA_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_SCHEMA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/frontend/postgres/sql_session.h"

namespace kinora {

// Prepares each connection: where names are looked up, and limits on what a stuck transaction can hold up.
extern const char kPostgresGreeting[];

inline constexpr int64_t kPostgresFrontendLock = 0x4b494e50;  // "KINP": of the advisory lock in postgres_lock.h
inline constexpr int64_t kPostgresOldestReader = 1;        // oldest version whose frontends can use the present schema
inline constexpr int64_t kBeingCopied = int64_t{1} << 62;  // as oldest_reader: a copy into it has not ended

enum class SchemaUse { kServe, kCopyFrom, kCopyInto };

// Creates the schema, unless it is to be copied from, or brings it up to date, one frontend at a time. Returns whether
// there was none. `session` has no greeting. FailedPrecondition: the server is too old, the schema is too new or there
// is none, a copy into it has not ended, or the role may not create it.
absl::StatusOr<bool> PreparePostgresSchema(SqlSession& session, absl::Time deadline, SchemaUse use = SchemaUse::kServe);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_SCHEMA_H_
