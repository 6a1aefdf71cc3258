// Reads SQLite's write-ahead log (https://www.sqlite.org/fileformat2.html#walformat) to distinguish damage from a power
// cut. SQLite takes both for the end of the log.
//
// A commit is acknowledged after the fsync of its frames, and the next one is written only after that. So a power cut
// can tear the last transaction, but a complete transaction never follows a torn one. If one does, a synced frame
// before it was damaged.
#ifndef KINORA_SERVER_FRONTEND_JOBS_WAL_FRAMES_H_
#define KINORA_SERVER_FRONTEND_JOBS_WAL_FRAMES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kinora {

// Returns the number of commits in the log `path` that SQLite will not recover although a later one is complete; 0 if
// the log is sound, torn by a power cut, empty or missing. Never more than were acknowledged, but possibly fewer.
// Read-only.
absl::StatusOr<int64_t> CountUnrecoverableCommits(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_WAL_FRAMES_H_
