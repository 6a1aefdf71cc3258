// StoreRows of a SQLite file. The caller holds the lock of its folder (state_directory.h), so no frontend uses it,
// whatever its leases say.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_STORE_ROWS_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_STORE_ROWS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/frontend/jobs/sqlite_job_tables.h"
#include "server/frontend/jobs/store_rows.h"

namespace kinora {

class SqliteStoreRows : public StoreRows {
 public:
  // A source, which is brought to the present schema. accept_lost_commits: as FrontendConfig. Errors: as
  // SqliteFile::Open; NotFound: there is no such file.
  static absl::StatusOr<std::unique_ptr<SqliteStoreRows>> Open(const std::string& path,
                                                               int64_t accept_lost_commits = 0);
  // A destination: "<path>.copy" until EndCopy.
  static absl::StatusOr<std::unique_ptr<SqliteStoreRows>> Create(const std::string& path);

  absl::StatusOr<std::string> LiveFrontend() override { return std::string(); }
  absl::StatusOr<std::vector<JobRow>> JobsAfter(int64_t ordinal, int limit) override;
  absl::StatusOr<OtherRows> Others() override;
  absl::StatusOr<int64_t> BeginCopy() override;
  absl::Status PutJobs(const std::vector<JobRow>& jobs) override;
  absl::Status PutOthers(const OtherRows& others) override;
  absl::Status EndCopy() override;

 private:
  SqliteStoreRows(std::string path, std::unique_ptr<SqliteJobTables> tables)
      : path_(std::move(path)), tables_(std::move(tables)) {}
  Database& database() { return tables_->database(); }
  absl::StatusOr<int64_t> Count(const char* sql);
  absl::Status ReadEvents(JobRow& job);
  absl::Status PutJob(const JobRow& job);
  template <typename Put>
  absl::Status InTransaction(Put put);

  const std::string path_;
  std::unique_ptr<SqliteJobTables> tables_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_STORE_ROWS_H_
