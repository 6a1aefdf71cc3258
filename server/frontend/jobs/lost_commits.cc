#include "server/frontend/jobs/lost_commits.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/job_schema.h"
#include "server/frontend/jobs/sqlite.h"
#include "server/frontend/jobs/wal_frames.h"

namespace kinora {
namespace {

std::string LogOf(const std::string& path) { return path + "-wal"; }

bool IsEmpty(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) != 0 || info.st_size == 0;
}

// Reads it with a connection that leaves the log in place. Returns an empty mark for an older schema without numbers.
absl::StatusOr<CommitMark> LastCommit(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const auto database, Database::Open(path, AtClose::kLeaveLog));
  KINORA_ASSIGN_OR_RETURN(const bool numbered, HasCommitNumber(*database));
  if (!numbered) return CommitMark();
  return ReadLastCommit(*database);
}

std::string Missing(const std::string& path, int64_t recovered, int64_t last, bool gone) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return absl::StrCat(name, ": ", last - recovered, " acknowledged commits are missing, up to commit ", last, ": ",
                      gone ? name : LogOf(name), " is damaged, truncated or missing");
}

}  // namespace

absl::StatusOr<int64_t> CheckCommits(const std::string& path, const std::optional<CommitMark>& mark, int64_t accepted) {
  const bool gone = IsEmpty(path);  // SQLite would create a new file and remove its log
  CommitMark recovered;
  if (!gone) {
    KINORA_ASSIGN_OR_RETURN(recovered, LastCommit(path));
  }
  KINORA_ASSIGN_OR_RETURN(const int64_t unrecoverable, CountUnrecoverableCommits(LogOf(path)));
  int64_t last = recovered.number + unrecoverable;
  if (mark.has_value() && (gone || mark->store == recovered.store)) {
    last = std::max(last, mark->number);
  } else if (mark.has_value()) {  // restored from before an upgrade, or another store
    Log(Severity::kInfo, "commit_mark_of_another_store", {{"number", mark->number}});
  }
  if (last == recovered.number) return last;
  const std::string missing = Missing(path, recovered.number, last, gone);
  if (last <= accepted) {
    Log(Severity::kWarning, "commits_lost", {{"commits", last - recovered.number}, {"why", missing}});
    return last;
  }
  return absl::DataLossError(absl::StrCat(missing,
                                          ". Restore the files from a snapshot or a backup; or start without the jobs "
                                          "of those commits: kinora-frontend --accept-lost-commits=",
                                          last, " and the other flags"));
}

}  // namespace kinora
