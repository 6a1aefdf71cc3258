// JobStore in a SQLite file (sqlite_file.h), which it opens and owns. Other stores can be in the same file.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_

#include <memory>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "server/frontend/jobs/sqlite_file.h"
#include "server/frontend/jobs/table_job_store.h"

namespace kinora {

class SqliteJobStore : public TableJobStore {
 public:
  // `path` and errors: as in SqliteFile::Open.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, const JobRules& rules,
                                                              Clock& clock, EventListener listener,
                                                              JobCommitterOptions options = {});

  SqliteFile& file() { return *file_; }  // destroyed with the store, after pending calls

 private:
  SqliteJobStore(std::unique_ptr<SqliteFile> file, const JobRules& rules)
      : TableJobStore(*file, rules), file_(std::move(file)) {}

  const std::unique_ptr<SqliteFile> file_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_JOB_STORE_H_
