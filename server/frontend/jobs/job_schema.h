// The schema of jobs.db, version by version. Every version since the first has a step to the next one, so a file of any
// of them is brought to the present version when it is opened, and an empty file by all the steps.
//
// To change the schema: append a step to kSteps (job_schema.cc), never change one that was released; let
// write_sample_jobs make a file of the new version for tests/server/frontend/data.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_SCHEMA_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

inline constexpr int64_t kSchemaVersion = 3;

// `database` is the open file `path`, or ":memory:"; it is in WAL mode afterwards. One of an older version is copied
// first, whole and on the disk, to "<path>.vN" with N its version (a copy of that name is replaced), and then all its
// steps are one transaction: whatever ends before the commit leaves it as it was, and the next start begins anew.
// FailedPrecondition: written by another program or a newer version, and untouched. DataLoss: damaged.
// ResourceExhausted, Unavailable, PermissionDenied: the copy or the steps could not be written. Each says what to do.
absl::Status BringSchemaUpToDate(Database& database, const std::string& path);

// Writes the version that the file has once more: a change of nothing that tells whether the file can be written.
// Inside a transaction.
absl::Status RewriteSchemaVersion(Database& database);

// Looks through the whole file; while no other connection is open. DataLoss.
absl::Status CheckIntegrity(Database& database);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_SCHEMA_H_
