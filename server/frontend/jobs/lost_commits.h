// Finds acknowledged commits that a store has lost, before anything writes to it.
#ifndef KINORA_SERVER_FRONTEND_JOBS_LOST_COMMITS_H_
#define KINORA_SERVER_FRONTEND_JOBS_LOST_COMMITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/frontend/jobs/commit_mark.h"

namespace kinora {

// Compares the commits that SQLite recovers from the store `path` and its log with `mark`, and scans the log
// (wal_frames.h). Changes neither file. Returns the number that the store's next commit must exceed: that of its last
// commit, recovered or lost.
//
// DataLoss, with the flag that starts anyway: commits above `accepted` are missing. If only commits up to `accepted`
// are missing, that is logged. Otherwise fails as Database.
absl::StatusOr<int64_t> CheckCommits(const std::string& path, const std::optional<CommitMark>& mark, int64_t accepted);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_LOST_COMMITS_H_
