// The schema of jobs.db. Each version has a step to the next one, so opening a file of any version upgrades it to the
// present one; an empty file takes all steps.
//
// To change the schema, append a step to kSteps (job_schema.cc), never change a released step, and use
// write_sample_jobs to create a file of the new version for tests/server/frontend/data.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_SCHEMA_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/frontend/jobs/commit_mark.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

inline constexpr int64_t kSchemaVersion = 5;

// Upgrades `database`, the open file `path` or ":memory:", and sets WAL mode. A file of an older version N is first
// copied durably to "<path>.vN", replacing an earlier copy. All steps then run in one transaction: if anything fails
// before its commit, the file is unchanged and the next start tries again. Each error includes a remedy.
// FailedPrecondition: written by another program or a newer version (unchanged). DataLoss: damaged. ResourceExhausted,
// Unavailable, PermissionDenied: the copy or the steps could not be written.
absl::Status BringSchemaUpToDate(Database& database, const std::string& path);

// The number of the last commit, in a row that every transaction with changes updates. HasCommitNumber: true from
// schema 4 to this version.
absl::StatusOr<bool> HasCommitNumber(Database& database);
absl::StatusOr<CommitMark> ReadLastCommit(Database& database);
absl::Status WriteCommitNumber(Database& database, int64_t number);  // durable with the transaction

// Checks the whole file. Requires that no other connection is open. Rebuilds and logs an index that disagrees with its
// table. DataLoss: the file is damaged otherwise.
absl::Status CheckIntegrity(Database& database);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_SCHEMA_H_
